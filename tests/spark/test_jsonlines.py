"""How a batch of lines is cut into tasks, without Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.streaming.datasource import ReadAllAvailable

from broker.sources.jsonlines import JsonFiles
from broker.spark.jsonlines import JsonReader


def test_a_large_batch_has_as_many_tasks_as_there_may_be(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f'{{"id": "d{n}", "xml": "<a/>"}}\n' for n in range(100)))
    reader = JsonReader(JsonFiles(file), 4, least=1)
    offset = reader.latestOffset({}, ReadAllAvailable())
    pieces = reader.partitions({}, offset)
    assert len(pieces) == 4
    ids = [id for piece in pieces for batch in reader.read(piece) for id in batch["id"].to_pylist()]
    assert ids == [f"d{n}" for n in range(100)]
    assert len(JsonReader(JsonFiles(file), 4).partitions({}, offset)) == 1, "too little for two"


def test_what_is_there_when_it_begins_is_all_where_nothing_more_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": "d1", "xml": "<a/>"}\n')
    reader = JsonReader(JsonFiles(tmp_path), 1)
    reader.prepareForTriggerAvailableNow()
    with file.open("a") as more:
        more.write('{"id": "d2", "xml": "<a/>"}\n')
    assert reader.latestOffset({}, ReadAllAvailable())["in.jsonl"]["lines"] == 1
