"""Decompression that stops at a limit, however small the compressed bytes are.

In: pieces of a body as they come from the network, and its Content-Encoding. Out: the body.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

_GZIP_MAGIC = b"\x1f\x8b\x08"
_ANY_HEADER = 32 + zlib.MAX_WBITS  # gzip or zlib, whichever is there


class TooLarge(Exception):
    """The body exceeds the limit; `size` is how much was seen of it, one byte more than that."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class BadEncoding(Exception):
    """The body is not what its encoding says, or the encoding is one nobody asked for."""


def unpack(pieces: Iterable[bytes], encoding: str, limit: int) -> bytes:
    """Join and decompress `pieces`; raises TooLarge beyond `limit` bytes, or BadEncoding."""
    names = [name for name in (part.strip().lower() for part in encoding.split(",")) if name]
    names = [name for name in names if name != "identity"]
    unknown = [name for name in names if name not in ("gzip", "x-gzip", "deflate")]
    if unknown or len(names) > 1:
        raise BadEncoding(f"unknown content encoding '{encoding}'")
    if not names:
        return gunzip(_joined(pieces, limit), limit)
    return _inflated(pieces, limit)


def gunzip(body: bytes, limit: int) -> bytes:
    """`body`, decompressed if it is a gzip file (some servers serve those without saying so)."""
    if len(body) > limit:
        raise TooLarge(limit + 1)
    return _inflated((body,), limit) if body.startswith(_GZIP_MAGIC) else body


def _joined(pieces: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limit:
            raise TooLarge(limit + 1)
    return bytes(body)


def _inflated(pieces: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    inflate = zlib.decompressobj(_ANY_HEADER)
    started = False
    for piece in pieces:
        data = piece
        while data:
            if inflate.eof:  # a gzip file may have several members; padding may follow the last
                if not data.startswith(_GZIP_MAGIC[:2]):
                    break
                inflate = zlib.decompressobj(_ANY_HEADER)
            try:
                body += inflate.decompress(data, limit + 1 - len(body))
            except zlib.error as error:
                if started or data[:2] == _GZIP_MAGIC[:2]:
                    raise BadEncoding(f"broken compression: {error}") from error
                # "deflate" is meant to have zlib's header, and often has not.
                inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                started = True
                continue
            started = True
            if len(body) > limit:
                raise TooLarge(limit + 1)
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    if started and not inflate.eof:
        raise BadEncoding("compressed data ends too early")
    return bytes(body)
