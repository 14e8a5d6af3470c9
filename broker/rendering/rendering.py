"""What is derived of a match when somebody reads it: its documents, its values and its result.

A match refers to its documents and nodes. The outbox and the mailbox hold it so, and not as text,
which would be longer than the documents themselves. So a document must be the one that the match
was found with: whoever changes or removes its bytes in the engine keeps them first
(`MatchRelations`), and the mailbox has its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from broker.model import Blocks, DocumentRef, Match, compact_json, nested_tuples
from broker.rendering.content import Content
from broker.shared_match import SharedMatch, Whole, result_of

Piece = tuple[int, int, bool]
"""A copy in a result: the place of the document in the match, the node, and whether it is an item
of SELECT; see `Content.copy`."""

Value = tuple[str, int, tuple[int, ...]]
"""The name of a variable, the place of its document in the match, and its nodes there. A variable
of several documents occurs for each."""


class Places(NamedTuple):
    """Where the parts of a match stand in its documents, which very many matches of a query have
    in common. `tail` is all of it as JSON."""

    nodes: tuple[int, ...]
    nodes_json: str
    values: tuple[Value, ...]
    pieces: tuple[Piece, ...]
    joined: tuple[tuple[str, ...], ...]
    joined_json: bytes
    tail: str
    blocks: Blocks | None = None
    blocks_json: str = ""

    @property
    def identity_json(self) -> str:
        """What the ids of matches of event patterns are made of beside their documents."""
        return f"[{self.blocks_json},{self.nodes_json}]"


def places(
    nodes: tuple[int, ...],
    values: tuple[Value, ...],
    pieces: tuple[Piece, ...],
    joined: tuple[tuple[str, ...], ...],
    blocks: Blocks | None = None,
) -> Places:
    written, together = compact_json(nodes), compact_json(joined)
    ordered = "" if blocks is None else compact_json(blocks)
    more = ordered and f',"blocks":{ordered}'
    tail = (
        f'"nodes":{written},"values":{compact_json(values)},"pieces":{compact_json(pieces)},'
        f'"joined":{together}{more}}}'
    )
    # A name is a word of the language, so it has no surrogate.
    encoded = together.encode()
    return Places(nodes, written, values, pieces, joined, encoded, tail, blocks, ordered)


class Rendering:
    """A match's documents, with the JSON of their ids, streams and times, and the places of its
    parts in them. It is `several` if several subscribers have the match; then what is derived is
    made once for all of them."""

    __slots__ = ("_content", "_documents", "_text", "contents", "docs", "places", "said", "several")

    wrapped = True

    def __init__(
        self,
        docs: tuple[int, ...],
        contents: Sequence[Content],
        said: Sequence[str],
        places: Places,
        several: bool = False,
    ) -> None:
        self.docs = docs
        self.contents = contents
        self.said = said
        self.places = places
        self.several = several
        self._documents: tuple[DocumentRef, ...] | None = None
        self._content: str | None = None
        self._text: str | None = None

    def xml(self) -> tuple[bytes, ...]:
        return tuple([content.xml for content in self.contents])

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
        if self.several:
            self._documents = documents
        return documents

    def derive_values(self) -> dict[str, list[str]]:
        return _texts(self.places.values, self.contents)

    def derive_content(self) -> str:
        content = self._content
        if content is None:
            content = _copies(self.places.pieces, self.contents)
            if self.several:
                self._content = content
        return content

    def derive_result(self, match: Match) -> str:
        return result_of(match.query, match.start_us, match.end_us, self.derive_content())

    def derive_blocks(self) -> Blocks | None:
        return self.places.blocks

    def dumps(self, shared: SharedMatch) -> str:
        text = self._text
        if text is None:  # outbox and mailbox store the same
            stream = (
                "" if shared.stream is None else f'"stream":{encode_basestring(shared.stream)},'
            )
            text = self._text = (
                f'{{{stream}"start":{shared.start_us},"end":{shared.end_us},'
                f'"documents":[{",".join(self.said)}],{self.places.tail}'
            )
        return text


def loads(
    ids: bytes, queries: Sequence[str], text: str, docs: Sequence[int], contents: Sequence[Content]
) -> SharedMatch:
    """A match that is stored as `Rendering.dumps`, of these documents."""
    plain = json.loads(text)
    found = places(
        tuple(plain["nodes"]),
        tuple([(name, place, tuple(nodes)) for name, place, nodes in plain["values"]]),
        tuple([(place, node, item) for place, node, item in plain["pieces"]]),
        tuple(map(tuple, plain["joined"])),
        nested_tuples(plain.get("blocks")),
    )
    said = [*map(compact_json, plain["documents"])]
    return SharedMatch(
        ids,
        queries,
        plain.get("stream"),
        plain["start"],
        plain["end"],
        found.nodes,
        found.joined,
        Rendering(tuple(docs), contents, said, found, len(queries) > 1),
    )


def whole(
    ids: bytes, queries: Sequence[str], text: str, contents: Sequence[Content]
) -> SharedMatch:
    """The same with all that is derived, so that the documents are no longer needed. Whoever reads
    the log reads it so, match by match: nothing is made that is not read."""
    plain = json.loads(text)
    documents = [
        DocumentRef(id, stream, end, *content.headline())
        for (id, stream, end), content in zip(plain["documents"], contents, strict=True)
    ]
    return SharedMatch(
        ids,
        queries,
        plain.get("stream"),
        plain["start"],
        plain["end"],
        tuple(plain["nodes"]),
        tuple(map(tuple, plain["joined"])),
        Whole(
            tuple(documents),
            _texts(plain["values"], contents),
            _copies(plain["pieces"], contents),
            True,
            nested_tuples(plain.get("blocks")),
        ),
    )


def _texts(
    values: Iterable[Value] | Iterable[Sequence[Any]], contents: Sequence[Content]
) -> dict[str, list[str]]:
    """The values of each variable, each once, in the order in which they come; `values` are lists
    where they were read from JSON."""
    found: dict[str, dict[str, None]] = {}
    for name, place, nodes in values:
        text = contents[place].text
        found.setdefault(name, {}).update(dict.fromkeys(map(text, nodes)))
    return {name: [*texts] for name, texts in found.items()}


def _copies(pieces: Iterable[Piece] | Iterable[Sequence[Any]], contents: Sequence[Content]) -> str:
    return "".join([contents[place].copy(node, item) for place, node, item in pieces])
