"""Decompression that stops at a limit, however small the compressed bytes are.

In: pieces of a body as they come from the network, and its Content-Encoding. Out: the body.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from feeds.item import one_line

try:
    import brotli  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:  # then Accept-Encoding does not offer it
    brotli = None

_GZIP_MAGIC = b"\x1f\x8b\x08"


ACCEPTED = "gzip, deflate" if brotli is None else "gzip, deflate, br"
"""The value of Accept-Encoding."""


class TooLarge(Exception):
    """The body exceeds the limit; `size` is how many bytes were read: the limit plus one."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class BadEncoding(Exception):
    """The body cannot be decoded as its Content-Encoding says, or that encoding is unknown."""


def unpack(pieces: Iterable[bytes], encoding: str, limit: int) -> bytes:
    """Join and decompress `pieces`; raises TooLarge beyond `limit` bytes, or BadEncoding."""
    names = [name for name in (part.strip().lower() for part in encoding.split(",")) if name]
    names = [name for name in names if name != "identity"]
    if not names:
        return gunzip(_joined(pieces, limit), limit)
    if names == ["br"] and brotli is not None:
        return _unbrotlied(pieces, limit)
    if names[0] not in ("gzip", "x-gzip", "deflate") or len(names) > 1:
        raise BadEncoding(f"unknown content encoding '{one_line(encoding)[:80]}'")
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
    inflate: zlib._Decompress | None = None
    data = b""
    members = 0
    for piece in pieces:
        data += piece
        while data:
            if inflate is None:
                if len(data) < 2:  # a header may be cut between two pieces
                    break
                # A gzip file may have several members; padding may follow the last.
                if members and not data.startswith(_GZIP_MAGIC[:2]):
                    data = b""
                    break
                inflate = zlib.decompressobj(_window_bits(data))
                members += 1
            try:
                body += inflate.decompress(data, limit + 1 - len(body))
            except zlib.error as error:
                raise BadEncoding(f"broken compression: {error}") from error
            if len(body) > limit:
                raise TooLarge(limit + 1)
            if inflate.eof:
                data, inflate = inflate.unused_data, None
            else:
                data = inflate.unconsumed_tail
    if inflate is not None or (data and not members):
        raise BadEncoding("compressed data ends too early")
    return bytes(body)


def _unbrotlied(pieces: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    decoder: Any = brotli.Decompressor()
    try:
        for piece in pieces:
            body += decoder.process(piece, output_buffer_limit=limit + 1 - len(body))
            while len(body) <= limit and not decoder.can_accept_more_data():
                body += decoder.process(b"", output_buffer_limit=limit + 1 - len(body))
            if len(body) > limit:
                raise TooLarge(limit + 1)
    except brotli.error as error:
        raise BadEncoding(f"broken compression: {error}") from error
    if not decoder.is_finished():
        raise BadEncoding("compressed data ends too early")
    return bytes(body)


def _window_bits(start: bytes) -> int:
    """zlib's `wbits` for data that starts so: gzip, zlib, or raw deflate. The encoding "deflate"
    should have zlib's header (RFC 1950), but often lacks it."""
    if start.startswith(_GZIP_MAGIC[:2]):
        return 16 + zlib.MAX_WBITS
    has_header = start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
