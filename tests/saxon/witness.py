"""Calls Saxon: documents and queries in, matches out.

One processor serves a whole process: starting one costs more than most questions, and its objects
may not be shared between threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lxml import etree
from saxonche import PySaxonProcessor, PyXdmValue

from tests.oracle.oracle import Arrival
from tests.saxon.rows import Row, canonical
from tests.saxon.translate import Module, Resolved

LOAD = """
for $document in /documents/document return map {
  "id": string($document/@id),
  "streams": tokenize($document/@streams, "\t"),
  "start": xs:integer($document/@at),
  "end": xs:integer($document/@at),
  "tree": parse-xml(string($document))
}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """`rows` are sorted. `left_out` are queries that Saxon has no answer to, with the reason.

    `homes` has, by query, the block of each node that SELECT names.
    """

    rows: list[Row]
    left_out: dict[str, str]
    homes: dict[str, tuple[int, ...]]


@cache
def processor() -> PySaxonProcessor:
    return PySaxonProcessor(license=False)


class Saxon:
    """Some documents, to be asked about. Their ids have to be distinct."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        assert len({arrival.id for arrival in arrivals}) == len(arrivals), "ids are distinct"
        self._xquery = processor().new_xquery_processor()
        self._xquery.set_parameter("documents", self._load(arrivals))

    def _load(self, arrivals: Iterable[Arrival]) -> PyXdmValue:
        documents = etree.Element("documents")
        for arrival in arrivals:
            streams = "\t".join(arrival.streams)
            document = etree.SubElement(
                documents, "document", id=arrival.id, streams=streams, at=str(arrival.timestamp)
            )
            xml = arrival.xml
            document.text = xml if isinstance(xml, str) else xml.decode()
        text = etree.tostring(documents, encoding="unicode")
        xquery = processor().new_xquery_processor()
        xquery.set_context(xdm_item=processor().parse_xml(xml_text=text))
        return xquery.run_query_to_value(query_text=LOAD)

    def ask(self, queries: Iterable[Resolved]) -> Answer:
        """All matches of the queries over the documents."""
        module = Module.of(queries)
        left_out = dict(module.left_out)
        rows: list[Row] = []
        for query_id, answer in zip(module.translated, self._run(module), strict=True):
            if isinstance(answer, str):
                left_out[query_id] = answer
            else:
                rows += (_row(query_id, match) for match in answer)
        homes = {query_id: each.homes for query_id, each in module.translated.items()}
        return Answer(sorted(rows), left_out, homes)

    def _run(self, module: Module) -> list[Any]:
        if not module.translated:
            return []
        answers = self._xquery.run_query_to_value(query_text=module.text)
        return [json.loads(str(answers.item_at(i))) for i in range(answers.size)]


def _row(query: str, match: dict[str, Any]) -> Row:
    return Row(
        query,
        match["start"],
        match["end"],
        tuple(d if isinstance(d, str) else _derived(d) for d in match["documents"]),
        tuple(match["nodes"]),
        canonical(match["result"]),
    )


def _derived(match: dict[str, Any]) -> str:
    return f"{match['start']}-{match['end']} {canonical(match['result'])}"
