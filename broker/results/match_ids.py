"""The ids of matches: a function of the query, its documents and the selected nodes.

An id is the hash of the JSON array `[query, text, documents, nodes]`, of sixteen bytes. A document
is its source and id, and the number of a revision that flows by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Protocol

from broker.shared_match import ID


class _Query(Protocol):
    id: str
    text: str


def id_suffix(documents: Sequence[str], nodes: str) -> bytes:
    """The part of what is hashed that does not depend on the query, of JSON."""
    return f",[{','.join(documents)}],{nodes}]".encode("utf-8", "surrogatepass")


def match_ids(queries: Iterable[_Query], suffix: bytes) -> bytes:
    """The ids of the matches of queries, one after another, given the `id_suffix` of their
    documents and nodes."""
    # Most of the cost is encoding, so `[query,text` is encoded once a query.
    digests = [_digest_of_query(query.id, query.text).copy() for query in queries]
    for digest in digests:
        digest.update(suffix)
    return b"".join([digest.digest() for digest in digests])


@lru_cache(maxsize=10_000)
def _digest_of_query(query: str, text: str) -> hashlib.blake2b:
    key = f"[{encode_basestring(query)},{_quoted(text)}"
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=ID)


@lru_cache(maxsize=100)
def _quoted(text: str) -> str:
    """A text as JSON; very many queries in a row may have the same."""
    return encode_basestring(text)
