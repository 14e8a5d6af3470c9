"""Lists of documents in order of time, and the part of a list that is in a new document's
window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from broker.join.records import Record
from broker.join.signatures import Verdict
from broker.model import UNBOUNDED

_END = attrgetter("end")


Hits = tuple[bool, Sequence[Verdict], Sequence[Sequence[Record]]]
"""Documents whose signature with a new one has a verdict: whether the new one is the right block,
the verdicts, and the documents of each, in order of their end. The window is not checked yet."""


def flatten(hits: Iterable[Hits]) -> Iterator[tuple[Verdict, bool, Sequence[Record]]]:
    """Each verdict, whether the new document is the right block of it, and its documents."""
    for right, verdicts, lists in hits:
        for verdict, records in zip(verdicts, lists, strict=True):
            yield verdict, right, records


def insert(records: list[Record], record: Record) -> None:
    """Insert in order of the end, in which documents mostly arrive."""
    if not records or records[-1].end <= record.end:
        records.append(record)
    else:
        insort(records, record, key=_END)


def span(
    records: Sequence[Record], new: Record, right: bool, window: int, ordered: bool
) -> tuple[int, int]:
    """The indices, first and after the last, of the documents of a hit that are in a window and, if
    `ordered`, on the right side of the new one in time.

    A document with an interval (a derived one) in this range may still begin too early for the
    window.
    """
    low, high = 0, len(records)
    if not high:
        return 0, 0
    if not ordered:
        if records[0].end < new.end - window:
            low = bisect_left(records, new.end - window, key=_END)
        if records[-1].end > new.start + window:
            high = bisect_right(records, new.start + window, key=_END)
    elif right:
        # Without a bound the beginning of a long list is not touched.
        if window < UNBOUNDED and records[0].end < new.end - window:
            low = bisect_left(records, new.end - window, key=_END)
        if records[-1].end >= new.start:
            high = bisect_left(records, new.start, key=_END)
    else:
        if records[0].end <= new.end:
            low = bisect_right(records, new.end, key=_END)
        if records[-1].end > new.start + window:
            high = bisect_right(records, new.start + window, key=_END)
    return low, high


def within(
    records: Sequence[Record], new: Record, right: bool, window: int, ordered: bool
) -> Sequence[Record]:
    """The documents of a hit in the `span`."""
    low, high = span(records, new, right, window, ordered)
    return records[low:high] if low or high < len(records) else records


def discard(records: list[Record], gone: dict[int, Record]) -> list[Record]:
    """Remove the records in `gone` (by their `id()`) in place, since others refer to the list."""
    records[:] = [record for record in records if id(record) not in gone]
    return records
