"""Spark's checkpoint, kept from being ahead of the engine.

A batch counts as done for Spark as soon as it is handed over, while the engine is still at it. So
the number of the last batch that the engine has committed is kept beside Spark's own logs, and what
these say of later batches is removed before a stream begins. Spark then begins with the first batch
that the engine may not have, as after a crash of its own: a batch whose offsets are logged and
whose commit is not is run again with the same offsets, and the offsets of the next one are chosen
anew. (Files that a directory was seen to have stay in a log of their own, and belong to that next
batch.)

The number is written after the engine's commit, so it may be too low, never too high: then a batch
is repeated, and the engine drops what it has.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_APPLIED = "applied"
_COMMITS, _OFFSETS = "commits", "offsets"


class Checkpoint:
    """The checkpoint in a directory, which need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rewind(self) -> None:
        """Take back what the engine may not have; called while no stream runs. Raises OSError."""
        applied = self._read()
        self.applied(applied)
        for log, last in ((_COMMITS, applied), (_OFFSETS, applied + 1)):
            for number, entry in self._entries(log):
                if number > last:
                    entry.unlink()
                    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)

    def applied(self, number: int) -> None:
        """Note that the engine has committed the batch of this number, and all before it. Raises
        OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        new = self.path / f".{_APPLIED}"
        new.write_text(str(number), encoding="ascii")
        new.replace(self.path / _APPLIED)

    def set_aside(self) -> None:
        """Make room for another one: this one cannot be read."""
        damaged = self.path.with_suffix(".damaged")
        shutil.rmtree(damaged, ignore_errors=True)
        self.path.rename(damaged)

    def _read(self) -> int:
        """The number of the last batch that the engine has; -1 if it has none for certain."""
        try:
            return int((self.path / _APPLIED).read_text(encoding="ascii"))
        except FileNotFoundError:
            # Of a version that committed each batch before Spark did.
            return max((number for number, _ in self._entries(_COMMITS)), default=-1)
        except ValueError:
            # It cannot be told where to begin, so Spark begins anew, and the engine drops it all.
            self.set_aside()
            return -1

    def _entries(self, log: str) -> list[tuple[int, Path]]:
        """The entries of one of Spark's logs by the number of their batch."""
        folder = self.path / log
        if not folder.is_dir():
            return []
        return [(int(each.name), each) for each in folder.iterdir() if each.name.isdecimal()]
