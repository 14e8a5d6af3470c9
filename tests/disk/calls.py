"""What a process does to the files of one directory: each call is seen before it is done.

Calls of the databases and of Python itself are seen alike. A `Disk` may do them, or fail.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.disk.interception import original, replace

Kind = Literal["write", "truncate", "sync", "rename", "remove"]
_INT, _LONG, _SIZE, _TEXT, _DATA = (
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.c_void_p,
)
_TRUNCATES = os.O_TRUNC


@dataclass(frozen=True, slots=True)
class Call:
    """A call, of the file `name` of the directory: `data` are written `at` a place, which is the
    new size of a file that is truncated; `target` is the new name of a file."""

    kind: Kind
    name: str
    at: int = 0
    data: bytes = b""
    target: str = ""


ITSELF = "."
"""The name of the directory itself."""

Sees = Callable[[Call], int]
"""Told of each call before it is done: 0, or the number of the error that it is to fail with."""


_CALLED: list[dict[str, Any]] = []
"""What C calls must never be deleted."""


class Watched:
    """The calls of this process, and of those that it forks, from now on and for good; those for
    the files of a directory are seen once there is one."""

    def __init__(self) -> None:
        self._itself, self._directory = "", "/nowhere/"
        self._sees: Sees = lambda call: 0
        self._kept: dict[str, Any] = {}
        _CALLED.append(self._kept)
        self._descriptors()
        self._names()
        self.found = replace(self._kept)

    def watch(self, directory: Path, sees: Sees) -> None:
        self._itself = str(directory.resolve())
        self._directory = f"{self._itself}/"
        self._sees = sees

    def _path(self, fd: int) -> str | None:
        """The file of a descriptor, if it is one of ours."""
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return None
        return self._name(path)

    def _name(self, path: str) -> str | None:
        if not path.startswith("/"):
            path = f"{os.getcwd()}/{path}"
        if path == self._itself:
            return ITSELF
        return path[len(self._directory) :] if path.startswith(self._directory) else None

    def _add(self, names: tuple[str, ...], result: Any, arguments: Any, make: Any) -> None:
        prototype = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
        for name in names:
            self._kept[name] = prototype(make(original(name, result, *arguments)))

    def _failed(self, call: Call) -> bool:
        error = self._sees(call)
        ctypes.set_errno(error)
        return error != 0

    def _descriptors(self) -> None:
        """What is done by the number of an open file."""

        def pwrite(real: Any) -> Any:
            def done(fd: int, data: int, size: int, at: int) -> int:
                name = self._path(fd)
                if name and self._failed(Call("write", name, at, ctypes.string_at(data, size))):
                    return -1
                written = int(real(fd, data, size, at))
                if name and _syncs(fd) and self._failed(Call("sync", name)):
                    return -1
                return written

            return done

        def write(real: Any) -> Any:
            def done(fd: int, data: int, size: int) -> int:
                name = self._path(fd)
                if name:
                    at = os.fstat(fd).st_size if _appends(fd) else os.lseek(fd, 0, os.SEEK_CUR)
                    if self._failed(Call("write", name, at, ctypes.string_at(data, size))):
                        return -1
                return int(real(fd, data, size))

            return done

        def ftruncate(real: Any) -> Any:
            def done(fd: int, size: int) -> int:
                name = self._path(fd)
                if name and self._failed(Call("truncate", name, size)):
                    return -1
                return int(real(fd, size))

            return done

        def sync(real: Any) -> Any:
            def done(fd: int) -> int:
                name = self._path(fd)
                if name is None:
                    return int(real(fd))
                # The machine stays up, and syncs take most of the time.
                return -1 if self._failed(Call("sync", name)) else 0

            return done

        def fallocate(real: Any) -> Any:
            def done(fd: int, mode: int, at: int, size: int) -> int:
                name = self._path(fd)
                # To punch a hole writes zeros; to reserve room changes nothing that is read.
                if name and mode & 2 and self._failed(Call("write", name, at, bytes(size))):
                    return -1
                return int(real(fd, mode, at, size))

            return done

        self._add(("pwrite", "pwrite64"), _LONG, (_INT, _DATA, _SIZE, _LONG), pwrite)
        self._add(("write",), _LONG, (_INT, _DATA, _SIZE), write)
        self._add(("ftruncate", "ftruncate64"), _INT, (_INT, _LONG), ftruncate)
        self._add(("fsync", "fdatasync"), _INT, (_INT,), sync)
        self._add(("fallocate", "fallocate64"), _INT, (_INT, _INT, _LONG, _LONG), fallocate)

    def _names(self) -> None:
        """What is done by the name of a file."""

        def opening(real: Any) -> Any:
            def done(path: bytes, flags: int, mode: int) -> int:
                name = self._name(os.fsdecode(path))
                if name and flags & _TRUNCATES and self._failed(Call("truncate", name, 0)):
                    return -1
                return int(real(path, flags, mode))

            return done

        def rename(real: Any) -> Any:
            def done(source: bytes, target: bytes) -> int:
                name, new = self._name(os.fsdecode(source)), self._name(os.fsdecode(target))
                if name and new and self._failed(Call("rename", name, target=new)):
                    return -1
                return int(real(source, target))

            return done

        def unlink(real: Any) -> Any:
            def done(path: bytes) -> int:
                name = self._name(os.fsdecode(path))
                if name and self._failed(Call("remove", name)):
                    return -1
                return int(real(path))

            return done

        self._add(("open", "open64"), _INT, (_TEXT, _INT, _INT), opening)
        self._add(("rename",), _INT, (_TEXT, _TEXT), rename)
        self._add(("unlink", "remove"), _INT, (_TEXT,), unlink)


def _appends(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)


def _syncs(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC)
