"""Durable writes, and free space on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Sync a file's content, or the names in a directory, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all; it ends with a line end."""
    growing = path.with_name(f".{path.name}.new")
    handle = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    sync(growing)
    growing.replace(path)
    sync(path.parent)


def free(directory: Path) -> int:
    """Bytes that can still be written there; 0 if the directory is missing."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def size(path: Path) -> int:
    """The size of a file in bytes; 0 if it is missing, as a log that its database has just
    deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
