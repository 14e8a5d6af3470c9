from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from feeds.adapter import parse_feed
from feeds.rows import DOCUMENTS
from feeds.source import FeedSpool, FeedSpoolStreamReader
from feeds.spool import Batch, FeedState, Spool, SpoolError
from tests.feeds.data import rss

URL = "http://a.example/f"


def fill(spool: Spool, count: int, url: str = URL) -> None:
    items = (f"<guid isPermaLink='false'>{n}</guid><title>é{n}</title>" for n in range(count))
    body = rss(*items)
    spool.append(Batch(FeedState(url, url), 1, parse_feed(body, url, arrival=1), body))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool.sqlite") as spool:
        yield spool


def stream(spool: Spool, **options: object) -> FeedSpoolStreamReader:
    given = {"path": str(spool.path), **{name: str(value) for name, value in options.items()}}
    return FeedSpool(given).streamReader(None)


def seqs(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


def test_offsets_move_by_rows_up_to_the_limit(spool: Spool) -> None:
    fill(spool, 10)
    reader = stream(spool)
    start = reader.initialOffset()
    assert start == {"seq": 0}
    assert reader.latestOffset(start, ReadMaxRows(4)) == {"seq": 4}
    assert reader.latestOffset({"seq": 8}, ReadMaxRows(4)) == {"seq": 10}
    assert reader.latestOffset({"seq": 10}, ReadMaxRows(4)) == {"seq": 10}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"seq": 10}
    assert reader.reportLatestOffset() == {"seq": 10}
    spool.trim(6)
    assert reader.latestOffset(start, ReadMaxRows(2)) == {"seq": 8}
    assert stream(spool, rows_per_batch=3).getDefaultReadLimit() == ReadMaxRows(3)


def test_an_empty_spool_and_none_at_all(spool: Spool, tmp_path: Path) -> None:
    assert stream(spool).latestOffset({"seq": 0}, ReadMaxRows(4)) == {"seq": 0}
    nothing = FeedSpool({"path": str(tmp_path / "none")}).streamReader(None)
    assert nothing.latestOffset({"seq": 0}, ReadAllAvailable()) == {"seq": 0}


def test_available_now_ends_where_the_spool_ended_at_the_start(spool: Spool) -> None:
    fill(spool, 5)
    reader = stream(spool)
    reader.prepareForTriggerAvailableNow()
    fill(spool, 5, "http://b.example/")
    assert reader.latestOffset({"seq": 0}, ReadMaxRows(100)) == {"seq": 5}
    assert reader.latestOffset({"seq": 5}, ReadMaxRows(100)) == {"seq": 5}


def test_a_spool_that_was_replaced_is_noticed(spool: Spool) -> None:
    fill(spool, 3)
    with pytest.raises(SpoolError, match="ends at 3, but 9 was read"):
        stream(spool).latestOffset({"seq": 9}, ReadMaxRows(4))


@pytest.mark.parametrize(("partitions", "least"), [(1, 1), (2, 1), (3, 1), (4, 5), (9, 100)])
def test_partitions_cover_a_range_once_and_in_order(
    spool: Spool, partitions: int, least: int
) -> None:
    fill(spool, 20)
    reader = stream(spool, partitions=partitions, rows_per_partition=least)
    parts = reader.partitions({"seq": 3}, {"seq": 17})
    assert len(parts) == max(1, min(partitions, 14 // least))
    assert [seq for part in parts for seq in seqs(reader.read(part))] == list(range(4, 18))
    assert reader.partitions({"seq": 17}, {"seq": 17}) == []


def test_reading_twice_gives_the_same(spool: Spool) -> None:
    fill(spool, 5)
    reader = stream(spool)
    (part,) = reader.partitions({"seq": 0}, {"seq": 5})
    first, second = (list(reader.read(part)) for _ in range(2))
    assert first == second
    assert first[0].schema == DOCUMENTS


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "the option 'path' is missing"),
        ({"path": "x", "partitions": "0"}, "option 'partitions' is '0', not a number from 1"),
        ({"path": "x", "rows_per_batch": "many"}, "option 'rows_per_batch' is 'many'"),
    ],
)
def test_options(options: dict[str, str], reason: str) -> None:
    with pytest.raises(SpoolError, match=reason):
        FeedSpool(options).streamReader(None)
