"""What is derived of a match when somebody reads it: its documents, its values and its result.

A match refers to its documents and nodes. The outbox holds it so, and not as text, which would be
longer than the documents themselves. So a document must be the one that the match was found with:
whoever changes or removes its bytes keeps them first (`MatchRelations`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import NamedTuple

from broker.model import DocumentRef, Match, compact_json, iso_time
from broker.results.construct import element
from broker.results.contents import Content

Piece = tuple[int, int, bool]
"""A copy in a result: the place of the document in the match, the node, and whether it is an item
of SELECT; see `Content.copy`."""

Value = tuple[str, int, tuple[int, ...]]
"""The name of a variable, the place of its document in the match, and its nodes there."""


class Places(NamedTuple):
    """Where the parts of a match stand in its documents, which very many matches of a query have
    in common. `tail` is all of it as JSON."""

    nodes: tuple[int, ...]
    nodes_json: str
    values: tuple[Value, ...]
    pieces: tuple[Piece, ...]
    joined: tuple[tuple[str, ...], ...]
    tail: str


def places(
    nodes: tuple[int, ...],
    values: tuple[Value, ...],
    pieces: tuple[Piece, ...],
    joined: tuple[tuple[str, ...], ...],
) -> Places:
    written = compact_json(nodes)
    tail = (
        f'"nodes":{written},"values":{compact_json(values)},"pieces":{compact_json(pieces)},'
        f'"joined":{compact_json(joined)}}}'
    )
    return Places(nodes, written, values, pieces, joined, tail)


class Rendering:
    """A match's documents, with the JSON of their ids, streams and times, and the places of its
    parts in them. It is `shared` if several subscribers have the match; then what is derived is
    made once for all of them."""

    __slots__ = ("_content", "_documents", "_tail", "contents", "docs", "places", "said", "shared")

    def __init__(
        self,
        docs: tuple[int, ...],
        contents: Sequence[Content],
        said: Sequence[str],
        places: Places,
    ) -> None:
        self.docs = docs
        self.contents = contents
        self.said = said
        self.places = places
        self.shared = False
        self._tail: str | None = None
        self._documents: tuple[DocumentRef, ...] | None = None
        self._content: str | None = None

    def derive_documents(self) -> tuple[DocumentRef, ...]:
        if self._documents is not None:
            return self._documents
        documents = tuple(
            [
                DocumentRef(id, stream, end, *content.headline())
                for (id, stream, end), content in zip(
                    map(json.loads, self.said), self.contents, strict=True
                )
            ]
        )
        if self.shared:
            self._documents = documents
        return documents

    def derive_values(self) -> dict[str, list[str]]:
        contents = self.contents
        return {
            name: list(dict.fromkeys([contents[place].text(node) for node in nodes]))
            for name, place, nodes in self.places.values
        }

    def derive_result(self, match: Match) -> str:
        content = self._content
        if content is None:
            contents, pieces = self.contents, self.places.pieces
            content = "".join([contents[place].copy(node, item) for place, node, item in pieces])
            if self.shared:
                self._content = content
        times = (("start", iso_time(match.start_us)), ("end", iso_time(match.end_us)))
        return element("result", (("query", match.query), *times), content)

    def dumps(self, match: Match) -> str:
        """The match without its id and the contents of its documents, as JSON; `loads` restores
        it."""
        tail = self._tail
        if tail is None:
            # The same for all its subscribers.
            tail = self._tail = (
                f'"start":{match.start_us},"end":{match.end_us},'
                f'"documents":[{",".join(self.said)}],{self.places.tail}'
            )
        stream = "" if match.stream is None else f'"stream":{encode_basestring(match.stream)},'
        return f'{{"query":{encode_basestring(match.query)},{stream}{tail}'


def loads(id: str, text: str, docs: Sequence[int], contents: Sequence[Content]) -> Match:
    """A match of the outbox, of these documents."""
    plain = json.loads(text)
    found = places(
        tuple(plain["nodes"]),
        tuple([(name, place, tuple(nodes)) for name, place, nodes in plain["values"]]),
        tuple([(place, node, item) for place, node, item in plain["pieces"]]),
        tuple(map(tuple, plain["joined"])),
    )
    return Match.derived(
        id,
        plain["query"],
        plain.get("stream"),
        plain["start"],
        plain["end"],
        found.nodes,
        found.joined,
        Rendering(tuple(docs), contents, [*map(compact_json, plain["documents"])], found),
    )
