"""Where the files of a cluster are: a directory that all machines see, or an object store.

Names are relative, with one `/` between folder and file. A file is there wholly or not at all, and
what was `put` or `create`d is read by everybody from then on. `names` may lag behind: it serves to
tidy up, and nothing is concluded from what it does not say.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from broker.errors import BrokerError
from broker.state.disk import sync

_TAIL = 1 << 16
"""Bytes from the end of an object that are read at once: the footer of a file of Arrow, or all."""


class ClusterError(BrokerError, RuntimeError):
    """The cluster cannot go on; the message says why."""


class Files(Protocol):
    """A place of files. All but `read` and `open` raise ClusterError."""

    where: str
    """What `files_at` is given elsewhere for the same files."""

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file, in place of what has its name."""

    def create(self, name: str) -> bool:
        """Make an empty file unless it is there; returns whether this call has made it, which of
        several at the same time one does."""

    def exists(self, name: str) -> bool:
        """Whether a file is there."""

    def read(self, name: str) -> pa.Buffer:
        """All of a file. Raises OSError."""

    def open(self, name: str) -> pa.NativeFile:
        """A file of which parts are read. Raises OSError."""

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, without the folder."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they are there."""


def files_at(where: str) -> Files:
    """The files at a URL as `s3://bucket/prefix`, or in a directory. Raises ClusterError."""
    return Objects(where) if "://" in where else Directory(Path(where))


class Directory:
    """A directory. What is written is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.where = str(self.path)

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        path = self.path / name
        # Whoever is fenced writes under names of its own, so two never have the same.
        new = path.with_name(f".{path.name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            sync(path.parent)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise ClusterError(f"{path}: {error.strerror}") from error

    def create(self, name: str) -> bool:
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            sync(path.parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise ClusterError(f"{path}: {error.strerror}") from error
        return True

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> pa.Buffer:
        return pa.py_buffer((self.path / name).read_bytes())

    def open(self, name: str) -> pa.NativeFile:
        return pa.memory_map(str(self.path / name))

    def names(self, folder: str) -> list[str]:
        try:
            found = os.listdir(self.path / folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ClusterError(f"{self.path / folder}: {error.strerror}") from error
        return [each for each in found if not each.startswith(".")]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise ClusterError(f"{self.path / name}: {error.strerror}") from error


class Objects:
    """An object store, by its URL and the environment variables that its clients usually have."""

    def __init__(self, url: str) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError
        from obstore.store import from_url

        self.where = url
        self._client = obstore
        self._there = AlreadyExistsError
        # A file that is missing is an OSError already, anything else is an error of the client's.
        self._errors = (BaseError, OSError)
        try:
            # Who gives an endpoint without TLS means it.
            self._store: Any = from_url(url, client_options={"allow_http": True})
        except (BaseError, ValueError) as error:
            raise ClusterError(f"{url}: {_first_line(error)}") from None

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        try:
            self._client.put(self._store, name, memoryview(content).cast("B"))
        except self._errors as error:
            raise self._failure(name, error) from error

    def create(self, name: str) -> bool:
        try:
            self._client.put(self._store, name, b"", mode="create")
        except self._there:
            return False
        except self._errors as error:
            raise self._failure(name, error) from error
        return True

    def exists(self, name: str) -> bool:
        try:
            self._client.head(self._store, name)
        except FileNotFoundError:
            return False
        except self._errors as error:
            raise self._failure(name, error) from error
        return True

    def read(self, name: str) -> pa.Buffer:
        try:
            return pa.py_buffer(self._client.get(self._store, name).bytes())
        except self._errors as error:
            raise self._unread(name, error) from error

    def open(self, name: str) -> pa.NativeFile:
        return pa.PythonFile(_Parts(self, name), mode="r")

    def names(self, folder: str) -> list[str]:
        try:
            found = [
                each["path"] for some in self._client.list(self._store, folder) for each in some
            ]
        except self._errors as error:
            raise self._failure(folder, error) from error
        return [path.rpartition("/")[2] for path in found]

    def remove(self, names: Iterable[str]) -> None:
        there = [*names]
        try:
            if there:
                self._client.delete(self._store, there)
        except FileNotFoundError:
            pass
        except self._errors as error:
            raise self._failure(there[0], error) from error

    def tail(self, name: str, size: int) -> tuple[bytes, int]:
        """So many bytes from the end of a file, or all, and how long it is. Raises OSError."""
        try:
            found = self._client.get(self._store, name, options={"range": {"suffix": size}})
            return bytes(found.bytes()), int(found.meta["size"])
        except self._errors as error:
            raise self._unread(name, error) from error

    def part(self, name: str, begin: int, end: int) -> bytes:
        """The bytes of a file between two places. Raises OSError."""
        try:
            return bytes(self._client.get_range(self._store, name, start=begin, end=end))
        except self._errors as error:
            raise self._unread(name, error) from error

    def _unread(self, name: str, error: BaseException) -> OSError:
        kind = FileNotFoundError if isinstance(error, FileNotFoundError) else OSError
        return kind(f"{self.where}/{name}: {_first_line(error)}")

    def _failure(self, name: str, error: BaseException) -> ClusterError:
        return ClusterError(f"{self.where}/{name}: {_first_line(error)}")


class _Parts(io.RawIOBase):
    """An object as a file, of which the end is read at once and the rest by parts."""

    def __init__(self, files: Objects, name: str) -> None:
        self._files, self._name = files, name
        self._end, self._size = files.tail(name, _TAIL)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        begin = self._at
        end = self._size if size is None or size < 0 else min(begin + size, self._size)
        if begin >= end:
            return b""
        self._at = end
        held = self._size - len(self._end)
        if begin >= held:
            return self._end[begin - held : end - held]
        return self._files.part(self._name, begin, end)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
