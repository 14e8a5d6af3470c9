from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.unpack import BadEncoding, TooLarge, gunzip, unpack
from tests.feeds.data import ROOT

TEXT = b"<rss>" + b"fog " * 1000 + b"</rss>"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@given(st.integers(1, 50), st.sampled_from(["gzip", "deflate", "raw", "identity", "members", "br"]))
def test_any_encoding_in_any_pieces(size: int, encoding: str) -> None:
    packed = {
        "gzip": gzip.compress(TEXT),
        "deflate": zlib.compress(TEXT),
        "raw": raw_deflate(TEXT),
        "identity": TEXT,
        "br": brotli.compress(TEXT),
        "members": gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + b"\0\0",
    }[encoding]
    header = {"raw": "deflate", "members": "x-gzip", "identity": ""}.get(encoding, encoding)
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert unpack(pieces, header, len(TEXT)) == TEXT


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 60_000
    with pytest.raises(TooLarge) as caught:
        unpack([bomb], "gzip", 1_000_000)
    assert caught.value.size == 1_000_001
    smaller = brotli.compress(b"\0" * 50_000_000)
    assert len(smaller) < 1_000
    for pieces in ([smaller], [smaller[:50], smaller[50:]]):
        with pytest.raises(TooLarge) as caught:
            unpack(pieces, "br", 1_000_000)
        assert caught.value.size == 1_000_001
    with pytest.raises(TooLarge):
        unpack([b"x" * 600_000, b"x" * 600_000], "", 1_000_000)
    with pytest.raises(TooLarge):
        gunzip(bomb, 1_000_000)


def test_a_body_of_exactly_the_limit_is_allowed() -> None:
    assert len(unpack([gzip.compress(b"x" * 1000)], "gzip", 1000)) == 1000
    assert len(unpack([b"x" * 1000], "identity", 1000)) == 1000
    assert len(unpack([brotli.compress(b"x" * 1000)], "br", 1000)) == 1000


def test_a_gzip_file_without_the_header() -> None:
    assert unpack([gzip.compress(TEXT)], "", len(TEXT)) == TEXT
    assert gunzip(TEXT, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("pieces", "encoding", "reason"),
    [
        ([b"x"], "zstd", "unknown content encoding 'zstd'"),
        ([b"x"], "br, gzip", "unknown content encoding 'br, gzip'"),
        ([b"x"], "a\x1b]b" * 99, "unknown content encoding 'a]b"),
        ([brotli.compress(TEXT)[:-5]], "br", "compressed data ends too early"),
        ([brotli.compress(TEXT) + b"garbage"], "br", "broken compression"),
        ([b"plain text"], "br", "compressed data ends too early|broken compression"),
        ([], "br", "compressed data ends too early"),
        ([b"x"], "gzip, gzip", "unknown content encoding 'gzip, gzip'"),
        ([gzip.compress(TEXT)[:-20]], "gzip", "compressed data ends too early"),
        ([gzip.compress(TEXT)[:20] + b"garbage" * 9], "gzip", "broken compression"),
        ([b"plain text"], "gzip", "broken compression"),
    ],
)
def test_broken_encodings(pieces: list[bytes], encoding: str, reason: str) -> None:
    with pytest.raises(BadEncoding, match=reason):
        unpack(pieces, encoding, 1_000_000)


def test_the_memory_of_a_bomb_is_that_of_the_limit() -> None:
    """Half a gigabyte of zeros, unpacked by a process that may have far less."""
    code = (
        "import resource, sys, brotli, gzip\n"
        "from feeds.unpack import TooLarge, unpack\n"
        "bombs = {'gzip': gzip.compress(bytes(2**25)) * 16, 'br': sys.stdin.buffer.read()}\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for name, bomb in bombs.items():\n"
        "    try: unpack([bomb], name, 5_000_000)\n"
        "    except TooLarge: continue\n"
        "    sys.exit(f'{name} was unpacked')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        input=brotli.compress(bytes(2**29), quality=1),
        capture_output=True,
        check=True,
    )
    assert int(result.stdout) < 64 * 1024  # kilobytes
