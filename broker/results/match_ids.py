"""The ids of matches: a function of the query, its documents and the selected nodes.

An id is the hash of the JSON array `[query, text, documents, nodes]`, of sixteen bytes. A document
is its source and id, and the number of a revision that flows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Protocol

from broker.shared_match import ID

_REMEMBERED = 50_000
"""Queries of which it is remembered what is hashed of them; each takes 460 bytes of memory."""


class _Query(Protocol):
    id: str
    text: str


def id_suffix(documents: Sequence[str], nodes: str) -> bytes:
    """The part of what is hashed that does not depend on the query, of JSON."""
    return f",[{','.join(documents)}],{nodes}]".encode("utf-8", "surrogatepass")


def match_ids(queries: Sequence[_Query], suffix: bytes) -> bytes:
    """The ids of the matches of queries, one after another, given the `id_suffix` of their
    documents and nodes."""
    if len(queries) == 1:
        return _id(_digest_of_query(queries[0].id, queries[0].text), suffix)
    return b"".join([_id(_digest(query.id, query.text), suffix) for query in queries])


class IdsOf(Protocol):
    """What makes the ids of matches that several queries have in common."""

    def of(self, queries: Sequence[_Query], suffix: bytes) -> bytes: ...


class MatchIds:
    """The same for queries that have very many matches in common: most of the cost is what depends
    on the query alone, and of the newest queries that is remembered."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[_Query], list[blake2b]]] = {}
        """By the id of the first of some queries all of them, and what is hashed of each."""
        self._count = 0

    def of(self, queries: Sequence[_Query], suffix: bytes) -> bytes:
        if len(queries) == 1:
            query = queries[0]
            return _id(_digest_of_query(query.id, query.text), suffix)
        known = self._known.get(queries[0].id)
        if known is None or known[0] != queries:
            known = self._remember([*queries], known)
        return b"".join([_id(digest, suffix) for digest in known[1]])

    def _remember(
        self, queries: list[_Query], instead: tuple[list[_Query], list[blake2b]] | None
    ) -> tuple[list[_Query], list[blake2b]]:
        self._count += len(queries) - (0 if instead is None else len(instead[0]))
        if self._count > _REMEMBERED:
            self._known.clear()
            self._count = len(queries)
        known = queries, [_digest(query.id, query.text) for query in queries]
        self._known[queries[0].id] = known
        return known


def _id(of_query: blake2b, suffix: bytes) -> bytes:
    digest = of_query.copy()
    digest.update(suffix)
    return digest.digest()


def _digest(query: str, text: str) -> blake2b:
    key = f"[{encode_basestring(query)},{encode_basestring(text)}"
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=ID)


_digest_of_query = lru_cache(maxsize=10_000)(_digest)
