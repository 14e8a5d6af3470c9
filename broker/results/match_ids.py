"""The ids of matches: a function of the query, its documents and the selected nodes.

An id is the hash of the JSON array `[query, text, documents, nodes]`. A document is its source and
id, and the number of a revision that flows by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring


def id_suffix(documents: Sequence[str], nodes: str) -> bytes:
    """The part of what is hashed that does not depend on the query, of JSON."""
    return f",[{','.join(documents)}],{nodes}]".encode("utf-8", "surrogatepass")


def match_id(query: str, text: str, suffix: bytes) -> str:
    """The id of a match of a query, given the `id_suffix` of its documents and nodes."""
    # Most of the cost is encoding, so `[query,text` is encoded once a query.
    digest = _digest_of_query(query, text).copy()
    digest.update(suffix)
    return digest.hexdigest()


@lru_cache(maxsize=10_000)
def _digest_of_query(query: str, text: str) -> hashlib.blake2b:
    key = f"[{encode_basestring(query)},{_quoted(text)}"
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)


@lru_cache(maxsize=100)
def _quoted(text: str) -> str:
    """A text as JSON; very many queries in a row may have the same."""
    return encode_basestring(text)
