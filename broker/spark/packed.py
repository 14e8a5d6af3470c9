"""Stage 1 on the executors, and how its rows come from there: each batch as one value.

Spark would take a batch apart into rows and lists, and put them together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from broker.documents.arrow import WITNESSED
from broker.documents.witnessing import matcher_for, stage1
from broker.sources.documents import ORDER
from broker.spark.worker import keep, settle

_ORDERED = WITNESSED.append(pa.field(ORDER, pa.string()))
PACKED = pa.schema([pa.field("batch", pa.binary())])
"""A record batch a row, as a stream of Arrow."""


def stage1_batches(
    key: str, broadcast: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage 1 on an executor: DOCUMENTS and ORDER in, WITNESSED and ORDER out, each batch in a row.

    `key` names the spec that is broadcast.
    """
    spec = keep(key, lambda: broadcast.value)
    matcher_for(spec)
    settle(key)
    for batch in batches:
        orders = batch.column(ORDER)
        for witnessed in stage1(spec, iter([batch])):
            yield _pack(pa.RecordBatch.from_arrays([*witnessed.columns, orders], schema=_ORDERED))


def _pack(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as the one row of another, of schema `PACKED`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    return pa.RecordBatch.from_arrays([pa.array([whole], pa.binary())], schema=PACKED)


def unpack(packed: pa.Table) -> pa.Table:
    """The rows, of schema WITNESSED and ORDER, of a table of schema `PACKED`."""
    rows = packed.column(0)
    batches = (batch for row in rows for batch in pa.ipc.open_stream(row.as_buffer()))
    return pa.Table.from_batches(batches, schema=_ORDERED)


def in_order(table: pa.Table) -> pa.Table:
    """The rows in order of arrival: by sequence number, files by age and name."""
    keys = pa.table(
        {
            "order": pc.fill_null(table.column(ORDER), ""),
            # One spool numbers the rows of many sources, and numbers them as they arrived.
            "seq": pc.fill_null(table.column("seq"), 0),
            "source": table.column("source"),
        }
    )
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    return table.take(order).drop_columns([ORDER])
