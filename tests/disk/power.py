"""The files of a directory as they may be after a power cut.

In: the calls up to that moment, in order. Out: files. What was synced is there; of what was not,
any part may be, in any order: each write block by block, as a block of the file system is written
as a whole. A sync of a new file, and one of the directory, makes all changes of names before it
durable, as on ext4, XFS and Btrfs; of the later ones those up to some moment are done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.disk.calls import ITSELF, Call

_BLOCK = 4_096


@dataclass(slots=True)
class _File:
    """What is durable of a file, and the calls since its last sync."""

    content: bytearray = field(default_factory=bytearray)
    pending: list[Call] = field(default_factory=list)

    def sync(self) -> None:
        for call in self.pending:
            _apply(self.content, call)
        self.pending.clear()

    def fail(self, r: Random) -> None:
        """A sync that fails: any part of what is pending is durable, and the rest will never be,
        as Linux takes it for written afterwards."""
        for call in self.pending:
            for part in _blocks(call):
                if r.random() < 0.5:
                    _apply(self.content, part)
        self.pending.clear()

    def cut(self, r: Random) -> bytes:
        """Its content after a power cut: nothing of what is pending, all, or some of it."""
        content = bytearray(self.content)
        share = r.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        parts = [part for call in self.pending for part in _blocks(call)]
        kept = [part for part in parts if r.random() < share]
        for part in kept:
            _apply(content, part)
        return bytes(content)


def _blocks(call: Call) -> Iterable[Call]:
    if call.kind != "write":
        yield call
        return
    at, end = call.at, call.at + len(call.data)
    while at < end:
        next_block = min(end, (at // _BLOCK + 1) * _BLOCK)
        yield Call("write", call.name, at, call.data[at - call.at : next_block - call.at])
        at = next_block


def _apply(content: bytearray, call: Call) -> None:
    if call.kind == "truncate":
        missing = call.at - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        del content[call.at :]
    else:
        missing = call.at - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        content[call.at : call.at + len(call.data)] = call.data


class Files:
    """The files of a directory, which was empty before the first call."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._changes: list[tuple[str, _File | None]] = []
        """Names that were given or taken (None) since names were last durable."""

    def apply(self, call: Call, failed: Random | None = None) -> None:
        """Do a call. One that `failed` does nothing, but for a sync, of which chance decides."""
        if failed is not None:
            if call.kind == "sync" and call.name in self._files:
                self._files[call.name].fail(failed)
            return
        if call.kind == "sync":
            file = self._files.get(call.name)
            if file is not None:
                file.sync()
            if call.name == ITSELF or self._durable.get(call.name) is not file:
                self._settle(self._durable, len(self._changes))
                self._changes.clear()
        elif call.kind == "rename":
            self._change(call.target, self._files[call.name])
            self._change(call.name, None)
        elif call.kind == "remove":
            self._change(call.name, None)
        else:
            if call.name not in self._files:
                self._change(call.name, _File())
            self._files[call.name].pending.append(call)

    def _change(self, name: str, file: _File | None) -> None:
        if file is None:
            self._files.pop(name, None)
        else:
            self._files[name] = file
        self._changes.append((name, file))

    def _settle(self, names: dict[str, _File], count: int) -> None:
        for name, file in self._changes[:count]:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file

    def in_memory(self) -> dict[str, bytes]:
        """The files as a process sees them."""
        found: dict[str, bytes] = {}
        for name, file in self._files.items():
            content = bytearray(file.content)
            for call in file.pending:
                _apply(content, call)
            found[name] = bytes(content)
        return found

    def after_a_cut(self, r: Random) -> dict[str, bytes]:
        """The files after a power cut now."""
        names = dict(self._durable)
        self._settle(names, r.randint(0, len(self._changes)))
        return {name: file.cut(r) for name, file in sorted(names.items())}


def write(files: dict[str, bytes], directory: Path) -> None:
    """Make these files."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
