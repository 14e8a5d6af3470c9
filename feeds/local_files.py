"""Local files as feeds. In: a request with a path or a `file:` URL. Out: a `Fetched`, always."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from feeds.fetch_model import Fetched, Request
from feeds.unpack import BadEncoding, TooLarge, gunzip


def local_path(address: str) -> Path | None:
    """The local file that an address names: a `file:` URL or a plain path; None for other URLs."""
    if address.lower().startswith("file:"):
        try:
            return Path(unquote(urlsplit(address).path))
        except ValueError:
            return None
    return None if "://" in address else Path(address)


def read_local(request: Request, path: Path, max_bytes: int) -> Fetched:
    """Read a local file of at most `max_bytes`; its time and size are the ETag."""
    if not request.private:
        problem = f"read: {path}: local files are not allowed here"
        return Fetched(request.url, "failed", request.url, problem=problem)
    try:
        if not path.is_file():
            reason = "is a directory" if path.is_dir() else "no such file"
            return Fetched(request.url, "missing", request.url, problem=f"read: {path}: {reason}")
        stat = path.stat()
        etag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
        if etag == request.etag:
            return Fetched(request.url, "not modified", request.url, headers={"etag": etag})
        with path.open("rb") as file:
            body = gunzip(file.read(max_bytes + 1), max_bytes)
    except TooLarge as error:
        reason = f"file too large: more than {error.size - 1} bytes"
    except BadEncoding as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        return Fetched(request.url, "ok", request.url, body=body, headers={"etag": etag})
    problem = f"read: {str(path)[:200]}: {reason}"
    return Fetched(request.url, "failed", request.url, problem=problem)
