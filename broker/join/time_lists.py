"""Lists of documents in order of time, and what a new document has to do with them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from broker.join.records import Record
from broker.join.signatures import Verdict
from broker.model import UNBOUNDED

_END = attrgetter("end")


Hits = tuple[bool, Sequence[Verdict], Sequence[Sequence[Record]]]
"""Older documents whose signature with a new one has a verdict: whether the new one is the right
block, the verdicts, and the documents of each, in order of their end. Of those the ones in the
window still have to be picked."""


def flatten(hits: Iterable[Hits]) -> Iterator[tuple[Verdict, bool, Sequence[Record]]]:
    """Each verdict, whether the new document is the right block of it, and its documents."""
    for right, verdicts, lists in hits:
        for verdict, records in zip(verdicts, lists, strict=True):
            yield verdict, right, records


def put(records: list[Record], record: Record) -> None:
    """In order of the end; documents mostly arrive in it."""
    if not records or records[-1].end <= record.end:
        records.append(record)
    else:
        insort(records, record, key=_END)


def span(
    records: Sequence[Record], new: Record, right: bool, window: int, ordered: bool
) -> tuple[int, int]:
    """Where among the documents of a hit those begin and end that are in a window and, where
    they are `ordered`, on their side of the new one in time.

    What has an interval of its own may begin too early to be in the window.
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
        # Where there is no bound to look for, a long list is not even touched at its beginning.
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
    """The documents of a hit between these bounds."""
    low, high = span(records, new, right, window, ordered)
    return records[low:high] if low or high < len(records) else records


def keep(records: list[Record], gone: dict[int, Record]) -> list[Record]:
    """Take out what is gone, in place, since the list is known elsewhere."""
    records[:] = [record for record in records if id(record) not in gone]
    return records
