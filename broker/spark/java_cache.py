"""Java's ahead-of-time cache: Spark starts in less than half the time.

Most of a start goes into finding, checking and linking some 15,000 classes. Java keeps them ready
in a file (JEP 483 and 514), which a *training run* makes: `broker.spark.training`, in the
background of the first start on a machine, with the processor time that nobody else wants. Owns the
directory of these files. In: the Java runtime, Spark's jars, the options of the JVM; out: the path
of a whole file, or None.

A cache only ever saves time: whatever is wrong with it, Spark starts without. A file's name says
for which Java, jars and options it was made, and what it holds; it gets that name when it is
complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

import xxhash

VARIABLE = "BROKER_JAVA_CACHE"
"""The environment's variable: a directory, or `off`."""

SUFFIX = ".aot"
RETRY_SECONDS = 3600
"""An attempt that made nothing is not repeated sooner."""
UNFINISHED_SECONDS = 86_400
"""What is left of a training run that was killed goes after a day."""
UNUSED_SECONDS = 30 * 86_400
"""A file that no start has used for so long belongs to a Java or a Spark that is gone."""


def cache_directory() -> Path | None:
    """Where the caches are: what BROKER_JAVA_CACHE says, or below XDG_CACHE_HOME or `~/.cache`.
    None if that is `off`, or there is no home."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen:
        return None if chosen.lower() == "off" else Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of XDG says that a relative path counts for nothing.
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return Path(base) / "xml-stream-broker" if os.path.isabs(base) else None


def cache_key(java: Path, class_path: Iterable[Path], options: Sequence[str]) -> str | None:
    """Names a Java runtime, jars and options. None for a class path with directories, with which
    Java has no cache."""
    digest = hashlib.blake2b(digest_size=10)
    try:
        for file in (java.parent.parent / "lib" / "modules", *class_path):
            if not file.is_file():
                return None
            status = file.stat()
            digest.update(f"{file.name} {status.st_size} {int(status.st_mtime)}\n".encode())
    except OSError:
        return None
    digest.update("\n".join(options).encode())
    return digest.hexdigest()


def find_cache(directory: Path, key: str) -> Path | None:
    """The cache of that key, if there is one and it is whole; one that is damaged is removed."""
    for path in sorted(directory.glob(f"{key}-*{SUFFIX}")):
        try:
            with path.open("rb") as file:
                found = _content_name(file)
        except OSError:
            continue
        if path.name == f"{key}-{found}{SUFFIX}":
            with suppress(OSError):
                os.utime(path)  # it is in use
            return path
        with suppress(OSError):
            path.unlink()
    return None


def keep_cache(made: Path, directory: Path, key: str) -> Path:
    """Give a complete file, which is in the same file system, its name; and forget old ones."""
    with made.open("rb") as file:
        os.fsync(file.fileno())
        name = _content_name(file)
    kept = made.replace(directory / f"{key}-{name}{SUFFIX}")
    for other in directory.iterdir():
        with suppress(OSError):
            age = time.time() - other.stat().st_mtime
            if other.is_dir() and age > UNFINISHED_SECONDS:
                shutil.rmtree(other)
            elif other.is_file() and age > UNUSED_SECONDS:
                other.unlink()
    return kept


def train_in_background(directory: Path, key: str) -> subprocess.Popen[bytes] | None:
    """Have a training run make the cache of that key, unless one is under way or made nothing of
    late. It outlives this process; None if there is nothing to do or nowhere to write."""
    try:
        log = _claim(directory, key)
    except OSError:
        return None
    if log is None:
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "broker.spark.training", "--idle"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=Path(__file__).parents[2],
            pass_fds=[log],  # with which it holds the lock
            process_group=0,  # Ctrl-C is not meant for it
        )
    except OSError:
        return None
    finally:
        os.close(log)


def _claim(directory: Path, key: str) -> int | None:
    """A descriptor of the attempt's log, locked; None if another has it, or had it of late."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{key}.log"
    known = path.exists()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if known and time.time() - os.fstat(log).st_mtime < RETRY_SECONDS:
            raise BlockingIOError
        os.ftruncate(log, 0)
        os.utime(log)
    except BlockingIOError:
        os.close(log)
        return None
    return log


def _content_name(file: BufferedReader) -> str:
    return hashlib.file_digest(file, xxhash.xxh3_64).hexdigest()
