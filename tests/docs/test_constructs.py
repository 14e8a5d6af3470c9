"""The tables of event patterns: each pattern matches what stands beside it, in the documents of its
section, whole and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import xscl.ast
from broker import Broker, Document
from tests.docs.markdown import ROOT, Fence, Heading, Table, code, codes, parts
from tests.docs.running import read_documents

PAGES = [ROOT / "docs" / name for name in ("constructs.md", "from-other-languages.md")]
PATTERNS = ("pattern", "matches", "")
TRANSLATIONS = ("there", "XSCL", "matches")


def found(pattern: str, batches: Sequence[Sequence[Document]]) -> list[str]:
    """The matches, as the page writes them: `a1 c1; x = 1`."""
    (query,) = xscl.parse(f"q: {pattern}").statements
    assert isinstance(query, xscl.ast.Query)
    shown = []
    with Broker(lateness=0) as broker:
        broker.subscribe(f"q: {pattern}")
        matches = [match for batch in batches for match in broker.process(batch)]
        matches += broker.decide()
        assert not broker.engine.take_suspensions()
    for match in matches:
        line = " ".join(document.id for document in match.documents)
        values = [f"{name} = {', '.join(match.values[name])}" for name in _named(query.select)]
        shown.append("; ".join([line, *values]))
    return sorted(shown)


def _named(select: object) -> list[str]:
    """The names of what SELECT gives: each item has one, or is a variable."""
    return [item.name or item.expr.variable for item in select] if isinstance(select, tuple) else []


def rows() -> list[object]:
    made: list[object] = []
    for page in PAGES:
        documents: list[Document] = []
        for part in parts(page):
            match part:
                case Heading():
                    documents = []
                case Fence(language="xml"):
                    documents = read_documents(part.text)
                case Table(header=header) if header in (PATTERNS, TRANSLATIONS):
                    assert documents, f"{page.name}: no documents before line {part.line}"
                    made += [pytest.param(*row, documents, id=row[0]) for row in _rows(part)]
    return made


def _rows(table: Table) -> Iterator[tuple[str, list[str]]]:
    for row in table.rows:
        pattern, matches = row[1:] if table.header == TRANSLATIONS else row[:2]
        yield code(pattern), codes(matches)


@pytest.mark.parametrize(("pattern", "matches", "documents"), rows())
def test_constructs(pattern: str, matches: list[str], documents: list[Document]) -> None:
    assert found(pattern, [documents]) == sorted(matches)
    assert found(pattern, [[each] for each in documents]) == sorted(matches)


def test_a_wrong_table_is_seen() -> None:
    documents = read_documents('<doc id="a1"><a>1</a></doc>')
    assert found("SELECT x FROM S/a->x", [documents]) == ["a1; x = 1"]
    assert found("S/b", [documents]) == []
