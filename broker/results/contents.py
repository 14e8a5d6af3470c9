"""The documents of matches: their bytes, and what has been made of them, once for all matches.

Stage 1 hands over the texts that it has made for the codes of values, so that a document need not
be parsed again to confirm a match. It is parsed again, once, where somebody reads what a match
publishes, or a query asks for more than those texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Protocol

from broker.rendering.content import Content
from broker.state.stored_documents import StoredDocument

REMEMBERED = 64 << 20
"""Bytes of documents that are remembered across batches."""

_COST = 1_500
"""What a document takes in memory beside its bytes, about."""

_LEFT = 7 / 8
"""Which part of that is left when it was exceeded, and the oldest were dropped."""


class Matched(Content):
    """A document of matches, its bytes and what has been made of them. What ids are made of and
    what matches say of it is made when one needs it: patterns read documents of which few come to
    be in a match."""

    __slots__ = ("_identity", "_said", "stored")

    def __init__(self, stored: StoredDocument, texts: dict[int, str]) -> None:
        super().__init__(stored.xml, texts)
        self.stored = stored
        self._identity = self._said = ""

    @property
    def identity(self) -> str:
        """What the ids of its matches are made of, in JSON."""
        if not self._identity:
            self._describe()
        return self._identity

    @property
    def said(self) -> str:
        """Its id, stream and time, in JSON."""
        if not self._said:
            self._describe()
        return self._said

    def _describe(self) -> None:
        stored = self.stored
        id = encode_basestring(stored.id)
        version = f",{stored.version}" if stored.version else ""
        self._identity = f"[{encode_basestring(stored.source)},{id}{version}]"
        self._said = f"[{id},{encode_basestring(stored.streams[0])},{stored.end}]"


class Source(Protocol):
    """Where documents are that are not remembered; the match relations are."""

    def documents(self, docs: Sequence[int]) -> Mapping[int, StoredDocument]:
        """The documents of these numbers that are stored, by number."""


class Contents:
    """The newest documents by number, as many as `remembered` bytes hold, and all others of the
    source.

    Whoever changes a document says so (`forget`), and a transaction that fails has changed all that
    it brought (`clear`).
    """

    def __init__(self, source: Source, remembered: int = REMEMBERED) -> None:
        self._source = source
        self._remembered = remembered
        self._bytes = 0
        self._known: dict[int, Matched | tuple[StoredDocument, dict[int, str]]] = {}
        """Most documents never match; of these there are only the parts."""
        self._used: list[Matched] = []

    def add(self, documents: Sequence[StoredDocument], texts: Sequence[dict[int, str]]) -> None:
        """Remember new documents, with the texts of their nodes that are known."""
        known = self._known
        for document, own in zip(documents, texts, strict=True):
            if own:
                known[document.doc] = (document, own)
                self._bytes += len(document.xml) + _COST
        self._trim()

    def _trim(self) -> None:
        if self._bytes <= self._remembered:
            return
        # Many at once: the first of a dictionary is looked for among all that were dropped before.
        for doc in [*self._known]:
            self.forget([doc])
            if self._bytes <= self._remembered * _LEFT:
                break

    def part(self, doc: int) -> tuple[StoredDocument, dict[int, str]] | None:
        """A document that is remembered, with the texts of its nodes that are known."""
        there = self._known.get(doc)
        if isinstance(there, Matched):
            return there.stored, there.texts
        return there

    def one(self, doc: int) -> Matched:
        """The document of a number."""
        there = self._known.get(doc)
        if there is None:
            return self.of((doc,), ())[doc]
        if not isinstance(there, Matched):
            there = self._known[doc] = Matched(*there)
        self._used.append(there)
        return there

    def of(self, docs: Iterable[int], run: Sequence[StoredDocument]) -> Mapping[int, Matched]:
        """The documents of these numbers; `run` are the newest."""
        found: dict[int, Matched] = {}
        missing: list[int] = []
        known = self._known
        for doc in docs:
            there = known.get(doc)
            if there is None:
                missing.append(doc)
                continue
            if not isinstance(there, Matched):
                there = known[doc] = Matched(*there)
            found[doc] = there
        if missing:
            fetched = {document.doc: document for document in run}
            fetched |= self._source.documents(
                sorted([doc for doc in missing if doc not in fetched])
            )
            for doc in missing:
                there = found[doc] = known[doc] = Matched(fetched[doc], {})
                self._bytes += len(there.stored.xml) + _COST
            self._trim()
        self._used += found.values()
        return found

    def forget(self, docs: Iterable[int]) -> None:
        """Forget documents whose bytes are others now."""
        for doc in docs:
            gone = self._known.pop(doc, None)
            if gone is not None:
                stored = gone.stored if isinstance(gone, Matched) else gone[0]
                self._bytes -= len(stored.xml) + _COST

    def release(self) -> None:
        """Drop what was parsed since the last call."""
        for matched in self._used:
            matched.release()
        self._used.clear()

    def clear(self) -> None:
        """Forget all documents."""
        self._known.clear()
        self._used.clear()
        self._bytes = 0
