"""Runs the queries and documents of the pages through the broker.

A block of documents is XML: one `<doc id="d1" at="2026-10-05 09:00" stream="S">…</doc>` for each,
whose child is the document. `at` (UTC) and `stream` (several, parted by blanks) may be left out;
`revision="yes"` marks an edited document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from lxml import etree

import xscl
from broker import Broker, Document, Match
from broker.query.prepared import compile_query
from tests.docs.markdown import Fence, parts
from xscl.stage1.document import ELEMENT_BITS, TEXT_NODE, attribute_name, node_element, node_text

START = datetime(2026, 10, 5, 9)


def compile_all(text: str, name: str = "<query>") -> tuple[xscl.Program, list[str]]:
    """The checked queries of a text and the codes of the warnings. Raises `XsclError`."""
    program, warnings = check_all(text, name)
    for query in program.queries:
        compile_query(query)
    return program, warnings


def check_all(text: str, name: str = "<query>") -> tuple[xscl.Program, list[str]]:
    """The same without compiling them, as event patterns are only checked."""
    program = xscl.check([xscl.parse(text, name)])
    return program, [warning.code for warning in program.warnings]


def read_documents(text: str) -> list[Document]:
    found = []
    for doc in etree.fromstring(f"<docs>{text}</docs>"):
        (root,) = doc
        at = doc.get("at")
        found.append(
            Document(
                id=str(doc.attrib["id"]),
                stream=tuple(doc.get("stream", "S").split()),
                timestamp=START if at is None else datetime.fromisoformat(at),
                xml=etree.tostring(root, encoding="unicode", with_tail=False),
                revision=doc.get("revision") == "yes",
            )
        )
        assert set(doc.attrib) <= {"id", "at", "stream", "revision"}, doc.attrib
    return found


def files_of(page: Path) -> dict[str, str]:
    """The files that a page has its readers make, by name: queries that begin with their name as
    `-- NAME.xscl`, and the documents behind them as `NAME.jsonl`."""
    found: dict[str, str] = {}
    name = ""
    for part in parts(page):
        if not isinstance(part, Fence):
            continue
        if part.language == "xscl":
            named = re.match(r"-- (\w+)\.xscl\b", part.text)
            name = named[1] if named else ""
            if name:
                found[f"{name}.xscl"] = part.text
        elif part.language == "xml" and name:
            found[f"{name}.jsonl"] = "".join(map(_line, read_documents(part.text)))
    return found


def _line(document: Document) -> str:
    time = document.timestamp
    assert isinstance(time, datetime)
    fields = {"id": document.id, "timestamp": f"{time.isoformat()}Z", "xml": str(document.xml)}
    return json.dumps(fields) + "\n"


def run(query: str, documents: Sequence[Document]) -> tuple[list[Match], list[str]]:
    """The matches and the ids of what was kept aside, in one batch; one by one must be the same."""
    outcomes = []
    ways = [[list(documents)], [[document] for document in documents]]
    for batches in ways[: len(documents)]:
        with Broker() as broker:
            broker.subscribe(query)
            matches = [m for batch in batches for m in broker.process(batch)]
            outcomes.append((matches, [letter.id for letter in broker.dead_letters()]))
    together, apart = outcomes[0], outcomes[-1]
    assert {m.id for m in together[0]} == {m.id for m in apart[0]}
    assert together[1] == apart[1]
    return together


def matched(query: str, document: Document) -> bool:
    return bool(run(query, [document])[0])


def selected(block: str, document: Document) -> list[str]:
    """What a block selects, in document order: `<name>`, `@name`, or a text in quotes."""
    root = etree.fromstring(str(document.xml))
    nodes = [match.nodes[0] for match in run(block, [document])[0]]
    places = {element: i for i, element in enumerate(root.iter())}

    def order(node: int) -> tuple[int, int]:
        element, ordinal = node_element(root, node), node >> ELEMENT_BITS
        if not ordinal & TEXT_NODE or ordinal == TEXT_NODE | 1:
            return places[element], ordinal
        before = list(element)[(ordinal & ~TEXT_NODE) - 2]  # texts part the children
        return max(places[inner] for inner in before.iter()), ordinal

    def shown(node: int) -> str:
        ordinal = node >> ELEMENT_BITS
        if ordinal & TEXT_NODE:
            return f"'{node_text(root, node)}'"
        if ordinal:
            return f"@{attribute_name(root, node)}"
        return f"<{etree.QName(node_element(root, node)).localname}>"

    return [shown(node) for node in sorted(nodes, key=order)]


# -- what a page says comes out --------------------------------------------------------------


def told(query: str, documents: Sequence[Document], text: str) -> tuple[list[str], list[str]]:
    """Expected and found, as lines to compare.

    `text` has a line `QUERY: doc doc …` for each match, then after a bar `variable = value` for
    values that it has; or result documents; or `kept aside: doc`; or `no match`.
    """
    matches, aside = run(query, documents)
    if text.startswith("<"):
        expected = [_canonical(each) for each in etree.fromstring(f"<all>{text}</all>")]
        return sorted(expected), sorted(_canonical(etree.fromstring(m.result)) for m in matches)
    expected, found = [], [f"kept aside: {id}" for id in aside]
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        message, _, rest = line.partition(" | ")
        if message != "no match":
            expected.append(line)
        values[message] = [value.partition(" = ")[0] for value in rest.split("; ") if value]
    for match in matches:
        line = f"{match.query}: {' '.join(d.id for d in match.documents)}"
        shown = [f"{n} = {', '.join(match.values[n])}" for n in values.get(line, ())]
        found.append(f"{line} | {'; '.join(shown)}" if shown else line)
    return sorted(expected), sorted(found)


def _canonical(element: etree._Element) -> str:
    """The element without the layout between tags, and wherever prefixes are declared."""
    for each in element.iter():
        if len(each) and not (each.text or "").strip():
            each.text = None
        if not (each.tail or "").strip():
            each.tail = None
    return etree.tostring(element, method="c14n", exclusive=True).decode()
