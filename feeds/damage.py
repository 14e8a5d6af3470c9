"""Rows of the log of a spool that are not as they were stored.

In: the spool's database, inside a transaction. Out: what is damaged or missing; what is damaged
becomes dead letters, which keep its numbers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from feeds import kept_packs, packs, row_log

_REASON = "damaged on the disk: it is not as it was stored; publish it again"


class Wrong(NamedTuple):
    """A row that is not as it was stored, by the numbers of its documents, and which of those are
    damaged."""

    numbers: range
    damaged: Sequence[bool]


def find(db: sqlite3.Connection, after: int) -> tuple[list[Wrong], list[range]]:
    """The rows after number `after` that are not as they were stored, and the numbers between two
    rows that are missing."""
    wrong: list[Wrong] = []
    missing: list[range] = []
    before: tuple[int, int | None] | None = None
    rows = db.execute(
        f"SELECT seq, count, sum, chain, {_columns()} FROM document WHERE seq > ? ORDER BY seq",
        (after,),
    )
    for seq, count, sum, chain, *stored in rows:
        numbers = range(seq - _counted(count) + 1, seq + 1)
        if before is not None:
            numbers = numbers[max(0, before[0] + 1 - numbers[0]) :]
            if numbers[0] != before[0] + 1:
                missing.append(range(before[0] + 1, numbers[0]))
        if sum is not None:
            whole = _is_sound(sum, chain, stored, count, before)
            found = _damaged(stored[_XML], len(numbers), whole=whole)
            # What was read of a pack already is not missed.
            damaged = [each and n > after for each, n in zip(found, numbers, strict=True)]
            if any(damaged):
                wrong.append(Wrong(numbers, damaged))
        before = seq, chain
    return wrong, missing


_XML = row_log.SUMMED.split(", ").index("xml")


def _columns() -> str:
    # What is damaged may be no text any more, which only bytes can be.
    return ", ".join(
        f"CAST({c} AS BLOB)" if c in row_log.TEXTS else c for c in row_log.SUMMED.split(", ")
    )


def _counted(count: object) -> int:
    """How many documents a row has; a count that is damaged says nothing about the rows before."""
    return count if isinstance(count, int) and 1 <= count <= packs.MOST else 1


def _is_sound(
    sum: int,
    chain: int,
    stored: Sequence[Any],
    count: int,
    before: tuple[int, int | None] | None,
) -> bool:
    try:
        same = sum == row_log.checksum(tuple(stored), count)
    except (TypeError, ValueError, AttributeError):
        return False  # a value of another type
    return same and (before is None or before[1] is None or chain == row_log.linked(sum, before[1]))


def _damaged(body: bytes, count: int, *, whole: bool) -> list[bool]:
    """Which documents of a row are damaged; those of a pack have checksums of their own, which are
    right where the row is `whole`."""
    if count == 1 or not whole:
        return [not whole] * count
    found = _unpacked(body, count)
    return [True] * count if found is None else [not each.is_sound() for each in found]


def spoil(db: sqlite3.Connection, wrong: Wrong) -> list[str]:
    """Make the damaged documents of a row dead letters; returns their places. The others stay as
    they are."""
    numbers = wrong.numbers
    last = numbers[-1]
    found = db.execute(
        f"SELECT CAST(taken AS INTEGER), chain, {_columns()} FROM document WHERE seq = ?", (last,)
    ).fetchone()
    taken, chain = found[:2]
    source, id, streams, _, dated, revision, xml, _, place, _ = found[2:]
    source, id, place = (_text(each) for each in (source, id, place))
    documents = [packs.Packed(id, 0, xml or b"")]
    if len(numbers) > 1:
        documents = _salvaged(xml or b"", len(numbers))
        # There may be references to those that were matched before, if it is worth to be kept.
        kept_packs.insert(db, kept_packs.compressed([(last, xml or b"")]))
    db.execute("DELETE FROM document WHERE seq = ?", (last,))
    places = []
    for seq, each, is_damaged in zip(numbers, documents, wrong.damaged, strict=True):
        own = place or packs.place_of(source, each.id)
        row: tuple[object, ...] = (each.id, _text(streams), each.timestamp, dated, revision)
        if is_damaged:
            places.append(own)
            # Its identity may be another's now: what is not as it was must not replace or hide
            # anything.
            row = (f"damaged:{seq}:{each.id}", "[]", taken, 0, 0)
        end = (each.xml, _REASON if is_damaged else None, own, taken, 1, None)
        db.execute(row_log.INSERT, (seq, source, *row, *end, chain if seq == last else None))
    return places


def _text(stored: Any) -> str:
    return bytes(stored or b"").decode("utf-8", "replace")


def _salvaged(body: bytes, count: int) -> list[packs.Packed]:
    """What is left of the documents of a pack; all of it in the last one if they cannot be told
    apart."""
    found, nothing = _unpacked(body, count), packs.Packed("", 0, b"")
    return [nothing] * (count - 1) + [nothing._replace(xml=body)] if found is None else found


def _unpacked(body: bytes, count: int) -> list[packs.Packed] | None:
    """The documents of a pack; None unless they can be told apart, and are so many."""
    try:
        found = packs.unpack(body)
    except ValueError:
        return None
    return found if len(found) == count else None
