"""Tests of the case files themselves: errors in files are reported, and wrong expectations fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.importing import write
from tests.cases.reading import SECOND, BadCase, CaseFiles, microseconds
from tests.cases.running import SINGLY, WAYS, check, formatted
from tests.feeds.data import DATA, needs_data

DOCUMENTS = """
# a comment
a1  S    1         <a>v</a>

b2  S,T  2.000001  <b>v
  </b>
b2  S    2  revision  <b>v</b>
c3  S    3  <c/>
c0  S    0  <c/>
"""


def case(folder: Path, **fields: Any) -> CaseFiles:
    (folder / "query.xscl").write_text(
        "S/a->x FOLLOWED BY {x = y} S/b->y; one: SELECT y AS v FROM S/a->x JOIN {x = y} S/b->y"
    )
    (folder / "documents.txt").write_text("a1 S 1 <a>v</a>\nb0 S 0 <b>v</b>\nb2 S 2 <b>v</b>\n")
    right = {
        "why": "",
        "lateness": 1,
        "matches": [["a1", "b0"], ["a1", "b2"]],
        "values": [[["v"]], [["v"]]],
        "intervals": [[0.0, 1.0], [1.0, 2.0]],
        "published": [[1, [["a1", "b0"]]], [2, [["a1", "b2"]]]],
        "undecided": [],
    }
    (folder / "expected.json").write_text(json.dumps(right | fields))
    return CaseFiles(folder)


def test_documents_are_read(tmp_path: Path) -> None:
    (tmp_path / "documents.txt").write_text(DOCUMENTS)
    found = CaseFiles(tmp_path).documents
    assert [(d.id, d.streams, d.timestamp, d.revision) for d in found] == [
        ("a1", ("S",), SECOND, False),
        ("b2", ("S", "T"), 2 * SECOND + 1, False),
        ("b2", ("S",), 2 * SECOND, True),
        ("c3", ("S",), 3 * SECOND, False),
        ("c0", ("S",), 0, False),
    ]
    assert found[1].xml == "<b>v\n  </b>"


@pytest.mark.parametrize("line", ["a1 S 1", "a1 S <a/>", "a1 S 1 a", "a1 S 1 twice <a/>"])
def test_a_line_that_is_no_document_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "documents.txt").write_text(f"# first\n\n{line}\n")
    with pytest.raises(BadCase, match=r"documents\.txt:3: a document is an id"):
        _ = CaseFiles(tmp_path).documents


@pytest.mark.parametrize(
    "text", ["{", '{"why": ""}', '{"matches": [], "mathces": []}', '{"error": "syntax", "x": 1}']
)
def test_fields_that_nobody_reads_are_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "expected.json").write_text(text)
    with pytest.raises(BadCase, match=r"expected\.json"):
        _ = CaseFiles(tmp_path).expected


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_what_is_right_passes(tmp_path: Path, way: Any) -> None:
    check(case(tmp_path), way)


@pytest.mark.parametrize(
    "wrong",
    [
        {"matches": [["a1", "b2"], ["a1", "b2"]]},
        {"matches": [["a1", "b2"]], "values": [[["v"]]], "intervals": [[1.0, 2.0]]},
        {"values": [[["v"]], [["w"]]]},
        {"intervals": [[0.0, 1.0], [1.0, 2.5]]},
        {"results": ["<result/>", "<result/>"]},
        {"late": ["b0"]},
        {"lateness": 0},
        {"registered": 1},
        {"published": [[1, [["a1", "b0"], ["a1", "b2"]]]]},
        {"undecided": [["a1"]]},
    ],
    ids=lambda wrong: ", ".join(wrong),
)
def test_what_is_wrong_is_seen(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check(case(tmp_path, **wrong), SINGLY)


def test_what_is_expected_is_written_with_a_match_on_a_line() -> None:
    long = [["a" * 40], ["b" * 40]]
    assert formatted({"why": "x", "matches": {"q": long, "r": []}}) == (
        '{\n  "why": "x",\n  "matches": {\n    "q": [\n'
        f'      ["{"a" * 40}"],\n      ["{"b" * 40}"]\n    ],\n    "r": []\n  }}\n}}\n'
    )


# -- cases that others wrote ----------------------------------------------------------------------

PATTERNS = DATA / "patterns" / "cases.jsonl"


@needs_data
def test_every_case_of_the_pattern_extension_can_be_a_folder(tmp_path: Path) -> None:
    for line in PATTERNS.read_text(encoding="utf-8").splitlines():
        wanted = json.loads(line)
        write(wanted, tmp_path / wanted["name"])
        found = CaseFiles(tmp_path / wanted["name"])
        assert found.query.strip() == wanted["query"].strip()
        assert [
            [d.id, ",".join(d.streams), d.timestamp, d.xml, *["revision"] * d.revision]
            for d in found.documents
        ] == [[id, s, microseconds(str(at)), *rest] for id, s, at, *rest in wanted["docs"]]
        told = {"matches": [], **found.expected}
        assert told == {k: v for k, v in wanted.items() if k not in ("name", "query", "docs")}
