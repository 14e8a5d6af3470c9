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
        # Most of the cost is encoding, so `[query,text` is encoded once a query.
        digest = _digest_of_query(queries[0].id, queries[0].text).copy()
        digest.update(suffix)
        return digest.digest()
    # Of very many queries none would be remembered, but most have the same text.
    end = suffix.decode("utf-8", "surrogatepass")
    tails = {text: f",{_quoted(text)}{end}" for text in {query.text for query in queries}}
    keys = [f"[{encode_basestring(query.id)}{tails[query.text]}" for query in queries]
    return b"".join(
        [blake2b(key.encode("utf-8", "surrogatepass"), digest_size=ID).digest() for key in keys]
    )


@lru_cache(maxsize=10_000)
def _digest_of_query(query: str, text: str) -> blake2b:
    key = f"[{encode_basestring(query)},{_quoted(text)}"
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=ID)


@lru_cache(maxsize=100)
def _quoted(text: str) -> str:
    """A text as JSON; very many queries in a row may have the same."""
    return encode_basestring(text)
