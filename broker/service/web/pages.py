"""The files of the page, as they are sent: compressed once, with tags, and with strict rules.

In: a name. Out: `File`. Scripts and styles come from files of this service only, nothing is loaded
from elsewhere, no other page may show this one in a frame, and links tell nobody where they are
from. `require-trusted-types-for` has the browser refuse to read any text as HTML.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

FOLDER = Path(__file__).parent / "static"

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page; `zipped` is it in gzip."""

    body: bytes
    zipped: bytes
    media_type: str
    tag: str


@cache
def names() -> frozenset[str]:
    """The names of all files."""
    return frozenset(path.name for path in FOLDER.iterdir() if path.suffix in MEDIA_TYPES)


@cache
def file(name: str) -> File | None:
    """The file of a name, None if there is none."""
    if name not in names():
        return None
    body = (FOLDER / name).read_bytes()
    tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    zipped = gzip.compress(body, 9, mtime=0)
    return File(body, zipped, MEDIA_TYPES[Path(name).suffix], tag)
