"""The spool of feeds read by Spark, in the session that all tests here share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from feeds.rows import DOCUMENTS
from feeds.source import FeedSpool
from feeds.spool import Spool
from tests.feeds.test_source import fill


def test_the_spool_of_feeds_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    """Bounded, in small batches, and on from the checkpoint; every row once and in order."""
    session: Any = spark
    with Spool(tmp_path / "spool.sqlite") as spool:
        fill(spool, 120)
        session.dataSource.register(FeedSpool)
        bounded = session.read.format("feed_spool").option("path", str(spool.path)).load()
        table = bounded.toArrow()
        assert table.column("seq").to_pylist() == list(range(1, 121))
        assert table.column("xml").to_pylist()[0] == next(spool.read(0, 1)).xml
        assert table.schema.names == DOCUMENTS.names

        batches: list[list[int]] = []

        def take(frame: Any, _number: int) -> None:
            batches.append(frame.toArrow().column("seq").to_pylist())

        def run() -> None:
            rows = (
                session.readStream.format("feed_spool")
                .option("path", str(spool.path))
                .option("rows_per_batch", "50")
                .option("rows_per_partition", "10")
                .load()
            )
            writer = rows.writeStream.foreachBatch(take).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            assert query.awaitTermination(60)

        run()
        assert [len(batch) for batch in batches] == [50, 50, 20]
        spool.trim(100)
        fill(spool, 5, "http://b.example/")
        run()
        assert [seq for batch in batches for seq in batch] == list(range(1, 126))
