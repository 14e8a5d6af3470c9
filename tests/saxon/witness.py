"""Asking Saxon: documents and resolved queries in, matches as plain rows out.

Saxon names nodes by the paths of `fn:path`; `paths` finds them in lxml's tree and gives them the
numbers that the engine gives. One processor serves a whole process: starting one costs more than
most questions, and its objects may not be shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lxml import etree
from saxonche import PySaxonProcessor

from tests.oracle.oracle import Arrival
from tests.saxon.translate import Resolved, Unsupported, translate

FUNCTIONS = Path(__file__).with_name("functions.xq").read_text(encoding="utf-8")
LOAD = """
for $document in /documents/document return map {
  "id": string($document/@id),
  "streams": tokenize($document/@streams, "\t"),
  "start": xs:integer($document/@start),
  "end": xs:integer($document/@end),
  "tree": parse-xml(string($document))
}
"""
TEXT = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A match: documents by id in pattern order, nodes by the engine's numbers."""

    query: str
    start: int
    end: int
    documents: tuple[str, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """`left_out` are queries that Saxon cannot answer, each with the reason."""

    rows: list[Row]
    left_out: dict[str, str]


@cache
def _processor() -> PySaxonProcessor:
    return PySaxonProcessor(license=False)


class Saxon:
    """Some documents, to be asked about. Their ids have to be distinct."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._query = _processor().new_xquery_processor()
        self._query.set_parameter("documents", self._loaded(arrivals))
        self._arrivals = {arrival.id: arrival for arrival in arrivals}
        assert len(self._arrivals) == len(arrivals), "ids are distinct"
        self._numbers: dict[str, dict[str, int]] = {}

    def _loaded(self, arrivals: Iterable[Arrival]) -> Any:
        documents = etree.Element("documents")
        for arrival in arrivals:
            at = str(arrival.timestamp)
            streams = "\t".join(arrival.streams)
            document = etree.SubElement(
                documents, "document", id=arrival.id, streams=streams, start=at, end=at
            )
            xml = arrival.xml
            document.text = xml if isinstance(xml, str) else xml.decode()
        text = etree.tostring(documents, encoding="unicode")
        self._query.set_context(xdm_item=_processor().parse_xml(xml_text=text))
        return self._query.run_query_to_value(query_text=LOAD)

    def ask(self, queries: Iterable[Resolved]) -> Answer:
        """All matches of the queries, sorted."""
        bodies: dict[str, str] = {}
        left_out: dict[str, str] = {}
        for query in queries:
            try:
                bodies[query.id] = translate(query)
            except Unsupported as error:
                left_out[query.id] = str(error)
        found: list[Row] = []
        for query_id, lines in zip(bodies, self._run(bodies.values()), strict=True):
            if lines[:1] == ["undecided"]:
                left_out[query_id] = lines[1]
            else:
                found += (self._row(query_id, line) for line in lines)
        return Answer(sorted(found), left_out)

    def _run(self, bodies: Iterable[str]) -> list[list[str]]:
        """The lines that each query gives. All are one module: compiling one costs the most."""
        guarded = [
            f'[try {{ {body} }} catch xscl:undecided {{ "undecided", $err:description }}]'
            for body in bodies
        ]
        if not guarded:
            return []
        error = 'declare namespace err = "http://www.w3.org/2005/xqt-errors";'
        module = f"{FUNCTIONS}\n{error}\n(\n" + ",\n".join(guarded) + "\n)"
        arrays = self._query.run_query_to_value(query_text=module)
        return [[str(item) for item in array.get(0)] for array in arrays]

    def _row(self, query_id: str, line: str) -> Row:
        start, end, *names = line.split("\t")
        ids = [name for name in names if name in self._arrivals]
        return Row(query_id, int(start), int(end), tuple(ids), ())
