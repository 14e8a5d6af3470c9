"""Runs the same case with the broker: its matches as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from broker import Broker, Document, Match
from tests.oracle.oracle import Arrival
from tests.saxon.rows import Row, canonical, node_paths

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def document(arrival: Arrival) -> Document:
    return Document(
        arrival.id,
        stream=arrival.streams,
        timestamp=EPOCH + timedelta(microseconds=arrival.timestamp),
        xml=arrival.xml,
        source=arrival.source,
    )


class Rows:
    """Turns a broker's matches into rows. `homes` has the block of each node, by query."""

    def __init__(
        self, broker: Broker, arrivals: Iterable[Arrival], homes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self._broker = broker
        self._homes = homes
        self._xml: dict[str, str | bytes] = {a.id: a.xml for a in arrivals}
        self._names = {name: name for name in self._xml}
        self._paths: dict[str, dict[int, str]] = {}

    def row(self, match: Match) -> Row:
        ids = [reference.id for reference in match.documents]
        names = tuple(self._name(each) for each in ids)
        homes = self._homes[match.query]
        nodes = [self._path(ids[at], n) for at, n in zip(homes, match.nodes, strict=True)]
        return Row(
            match.query, match.start_us, match.end_us, names, tuple(nodes), canonical(match.result)
        )

    def _name(self, document_id: str) -> str:
        """A base document is its id; a derived one, whose id is a hash, what it says."""
        if document_id not in self._names:
            [(start, end, xml)] = self._broker.engine.store.rows(
                'SELECT "start", "end", xml FROM documents WHERE id = ?', [document_id]
            )
            self._xml[document_id] = xml
            self._names[document_id] = f"{start}-{end} {canonical(xml)}"
        return self._names[document_id]

    def _path(self, document_id: str, node: int) -> str:
        if document_id not in self._paths:
            self._paths[document_id] = node_paths(self._xml[document_id])
        return self._paths[document_id][node]
