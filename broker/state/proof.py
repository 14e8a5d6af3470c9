"""The proof: what the files of a state held when it was last synced, in a small file of its own.

In: numbers that only grow, of the spool, the engine, the mailbox and the log of changes. Out: the
same at the next start, when a file that holds less than was proven has lost something.

The file has room for two records, written in turns and each with a checksum, so a write that was
cut off leaves the one before. It never grows: a sync writes one sector and no metadata. A third one
is written without a sync: it survives the process, and not the machine.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from pathlib import Path
from typing import NamedTuple

from broker.state.disk import sync

_MAGIC = b"XBPROOF2"
_RECORD = struct.Struct("<8sQ10q")
_RECORDS = {_MAGIC: _RECORD, b"XBPROOF1": struct.Struct("<8sQ9q")}
"""Those of today and of before, which lack the last number."""
_CHECK = struct.Struct("<I")
_SLOT = 4096
"""Bytes between the records, so that a torn sector never holds two."""
_SYNCED = 2
"""How many of the records are synced; the one behind them is not."""


class Proven(NamedTuple):
    """What the files of a state hold at least.

    `documents`: the number of the last row of the spool, and `chain`, its chained checksum.
    `position`: the number of the last row that the engine has committed, and `changes`, how often
    its subscriptions were changed. `commits`: how many transactions the mailbox has, `matches`, the
    last number of its log, and of its newest batch the number and the checksum. `clock`: a time of
    the wall clock that has really come, in microseconds since 1970; 0 if none is known. `entry`:
    the last number of the log of changes, beside which the tokens are.
    """

    documents: int = 0
    chain: int = 0
    position: int = 0
    changes: int = 0
    commits: int = 0
    matches: int = 0
    batch: int = 0
    batch_sum: int = 0
    clock: int = 0
    entry: int = 0


class Proof:
    """The proof of a state in the file at `path`, made if it is missing. May be used from several
    threads. Raises OSError.

    `found` is what it said when it was opened, None if it was missing or `damaged`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = False
        self._noting = threading.Lock()
        self._syncing = threading.Lock()
        self._notes = 0
        """How many times something was noted, and of these how many are synced."""
        self._synced = 0
        self._turn = 0
        """The number of the last record."""
        self._place = 0
        """Which one was synced last."""
        self.found = self._read()
        self._now = self.found or Proven()
        if self.found is None:
            self._create()
        self._file = os.open(path, os.O_RDWR)

    def close(self) -> None:
        """Sync what was noted, and close the file."""
        try:
            self.sync()
        finally:
            os.close(self._file)

    def note(self, **numbers: int) -> None:
        """Note what the files hold now. It is proven after the next `sync`."""
        with self._noting:
            now = self._now._replace(**numbers)
            self._notes += now != self._now
            self._now = now

    def note_documents(self, last: int, chain: int) -> None:
        """Note the last row of the spool; threads may come out of order."""
        with self._noting:
            if last > self._now.documents:
                self._now = self._now._replace(documents=last, chain=chain)
                self._notes += 1

    def sync(self) -> None:
        """Prove what was noted: it is on the disk when this returns. Threads that call it at the
        same time share a sync."""
        wanted = self._notes
        with self._syncing:
            if self._synced >= wanted:
                return
            with self._noting:
                now, notes = self._now, self._notes
                self._turn += 1
                turn = self._turn
            self._place = 1 - self._place
            os.pwrite(self._file, _packed(turn, now), self._place * _SLOT)
            os.fdatasync(self._file)
            self._synced = notes

    def write(self) -> None:
        """Write what was noted without a sync: for what is on the disk twice."""
        with self._noting:
            self._turn += 1
            os.pwrite(self._file, _packed(self._turn, self._now), _SYNCED * _SLOT)

    def _create(self) -> None:
        growing = self.path.with_name(f".{self.path.name}.new")
        handle = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            record = _packed(self._turn, self._now)
            os.write(handle, record.ljust((_SYNCED + 1) * _SLOT, b"\0"))
            os.fsync(handle)
        finally:
            os.close(handle)
        growing.replace(self.path)
        sync(self.path.parent)

    def _read(self) -> Proven | None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        records = [_unpacked(content[n * _SLOT : (n + 1) * _SLOT]) for n in range(_SYNCED + 1)]
        good = [(*record, place) for place, record in enumerate(records) if record is not None]
        if not good:
            self.damaged = True
            return None
        self._turn, proven, _ = max(good)
        self._place = max([(turn, place) for turn, _, place in good if place < _SYNCED])[1]
        return proven


def _packed(turn: int, proven: Proven) -> bytes:
    record = _RECORD.pack(_MAGIC, turn, *proven)
    return record + _CHECK.pack(zlib.crc32(record))


def _unpacked(slot: bytes) -> tuple[int, Proven] | None:
    """A record and its turn; None if it is not as it was written."""
    form = _RECORDS.get(slot[: len(_MAGIC)])
    if form is None or len(slot) < (size := form.size) + _CHECK.size:
        return None
    if _CHECK.unpack_from(slot, size)[0] != zlib.crc32(slot[:size]):
        return None
    _, turn, *numbers = form.unpack_from(slot)
    return turn, Proven(*numbers)
