"""The ids of matches that the mailbox has stored, also of those that retention has removed.

A match arrives twice only if its outbox row outlived the commit of the mailbox: the process died
between the two, or the engine was restored from a backup older than the mailbox's and found the
match again. So the newest ids are enough; `REMEMBERED` of them reach back over far more than one
batch or one backup. On disk they are packed, a row per batch, so that adding them costs no index.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from broker.shared_match import ID as _ID
from broker.shared_match import SharedMatch
from broker.state.known_keys import KnownKeys

REMEMBERED = 2_000_000
"""How many ids are remembered; each takes eight bytes of memory and twenty of the file."""

_SIZE = 20
_SPREAD = 0x9E3779B97F4A7C15
_64_BITS = (1 << 64) - 1
_FEW = 40
"""Entries whose keys are computed one by one, which takes less time than making arrays of them."""
_HEX = 32


def packed(match_id: str) -> bytes:
    """The sixteen bytes of a match id; other ids than ours are hashed."""
    if len(match_id) == _HEX:
        try:
            return bytes.fromhex(match_id)
        except ValueError:
            pass
    return hashlib.blake2b(match_id.encode("utf-8", "surrogatepass"), digest_size=_ID).digest()


def entries(match: SharedMatch, subscriptions: Sequence[int]) -> bytes:
    """The bytes that identify matches, one after another: the id of each, and the number of its
    subscription.

    A subscription that is dropped and made again has another number: what it finds is new.
    """
    ids = match.ids if match.named is None else packed(match.named)
    if len(subscriptions) == 1:
        return ids + subscriptions[0].to_bytes(_SIZE - _ID, "big")
    table = np.empty((len(subscriptions), _SIZE), np.uint8)
    table[:, :_ID] = np.frombuffer(ids, np.uint8).reshape(-1, _ID)
    numbers = np.array(subscriptions, ">u4")
    table[:, _ID:] = numbers.view(np.uint8).reshape(-1, _SIZE - _ID)
    return table.tobytes()


def count(entries: bytes) -> int:
    """How many entries these are."""
    return len(entries) // _SIZE


def each(entries: bytes) -> list[bytes]:
    """Entries one by one."""
    return [entries[at : at + _SIZE] for at in range(0, len(entries), _SIZE)]


def _keys(entries: bytes) -> list[int]:
    if len(entries) > _FEW * _SIZE:
        keys: list[int] = _key_array(entries).tolist()
        return keys
    number = int.from_bytes
    return [
        number(entries[at : at + 8], "big")
        ^ number(entries[at + _ID : at + _SIZE], "big") * _SPREAD & _64_BITS
        for at in range(0, len(entries), _SIZE)
    ]


def _key_array(entries: bytes) -> npt.NDArray[np.uint64]:
    table = np.frombuffer(entries, np.uint8).reshape(-1, _SIZE)
    starts = np.ascontiguousarray(table[:, :8]).view(">u8").ravel().astype(np.uint64)
    numbers = np.ascontiguousarray(table[:, _ID:]).view(">u4").ravel().astype(np.uint64)
    return starts ^ (numbers * np.uint64(_SPREAD))


class Ids:
    """The ids of the newest `most` matches, taken or left out by a throttle."""

    def __init__(self, db: sqlite3.Connection, most: int = REMEMBERED) -> None:
        self._most = most
        self._memory = KnownKeys(np.array([], np.uint64))
        self.size = 0
        self.load(db)

    def load(self, db: sqlite3.Connection) -> None:
        """Read the newest ids from the file, and forget older ones."""
        blobs: list[bytes] = []
        size = 0
        for ids, left_out in db.execute("SELECT ids, left_out FROM taken ORDER BY batch DESC"):
            blobs += (ids, left_out)
            size += (len(ids) + len(left_out)) // _SIZE
            if size >= self._most:
                break
        self._memory = KnownKeys(_key_array(b"".join(blobs)))
        self.size = size

    def known(self, db: sqlite3.Connection, entries: bytes) -> set[bytes] | None:
        """Those of the given entries that were stored before; None if none was, and none is given
        twice."""
        keys = _keys(entries)
        hits = set(self._memory.intersection(keys))
        if not hits:
            return None if len(set(keys)) == len(keys) else set()
        suspects = {e for e, key in zip(each(entries), keys, strict=True) if key in hits}
        found: set[bytes] = set()
        # Usually the newest batch, come again after a crash.
        for blobs in db.execute("SELECT ids, left_out FROM taken ORDER BY batch DESC"):
            for blob in blobs:
                found.update(suspects.intersection(each(blob)))
            if len(found) == len(suspects):
                break
        return found

    def add(self, entries: bytes) -> None:
        """Add entries to the memory; to be called after the commit that stored them."""
        self._memory.add(_keys(entries))
        self.size += count(entries)

    def trim(self, db: sqlite3.Connection, oldest: int) -> None:
        """Forget the batches in the file beyond the newest ids that hold nothing from `oldest` on,
        and older ones in memory where they have become too many."""
        size, last = 0, None
        for batch, length in db.execute(
            "SELECT batch, length(ids) + length(left_out) FROM taken ORDER BY batch DESC"
        ):
            size += length // _SIZE
            if size > self._most:
                last = batch
                break
        if last is not None:
            # The batch before the first that starts beyond `oldest` may still hold it.
            db.execute(
                "DELETE FROM taken WHERE batch < ? AND batch < "
                "(SELECT coalesce(max(batch), 0) FROM taken WHERE first <= ?)",
                (last, oldest),
            )
        if self.size > 2 * self._most:
            self.load(db)


def store(db: sqlite3.Connection, at: int, first: int, ids: bytes, left_out: bytes) -> None:
    """Remember a batch: the entries of the matches numbered from `first` on, and of those left
    out."""
    if ids or left_out:
        db.execute(
            "INSERT INTO taken (at, first, ids, left_out) VALUES (?, ?, ?, ?)",
            (at, first, ids, left_out),
        )


def checksum(db: sqlite3.Connection, batch: int | None = None) -> tuple[int, int] | None:
    """The number of a batch, or of the newest, and its checksum; None if it is not there."""
    found = db.execute(
        "SELECT batch, at, first, ids, left_out FROM taken WHERE ?1 IS NULL OR batch = ?1"
        " ORDER BY batch DESC LIMIT 1",
        (batch,),
    ).fetchone()
    if found is None:
        return None
    batch, at, first, ids, left_out = found
    return batch, zlib.crc32(left_out, zlib.crc32(ids, zlib.crc32(f"{at} {first}".encode())))


def find(db: sqlite3.Connection, match_id: str) -> list[int]:
    """The numbers that matches of this id were given, newest first."""
    wanted = packed(match_id)
    numbers = []
    for first, ids in db.execute(
        "SELECT first, ids FROM taken WHERE instr(ids, ?) ORDER BY batch DESC", (wanted,)
    ):
        numbers += [
            first + at // _SIZE for at in range(0, len(ids), _SIZE) if ids[at : at + _ID] == wanted
        ]
    return numbers
