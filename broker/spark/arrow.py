"""`mapInArrow` without pandas, and Arrow types that Spark lacks.

pyspark's own method asks for pandas although nothing of it is used for Arrow record batches: 100 MB
to install, and half a second in every Python worker that imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.util import PythonEvalType

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class ArrowMap:
    """`function` over the record batches of each partition of a frame, on the executors.

    `schema` is that of the batches which `function` yields. One object serves many frames: the
    function is pickled and sent to the JVM once.
    """

    def __init__(self, function: BatchFunction, schema: pa.Schema) -> None:
        self._udf = vectorized_udf(
            function, from_arrow_schema(schema), PythonEvalType.SQL_MAP_ARROW_ITER_UDF, "pandas"
        )

    def __call__(self, frame: DataFrame) -> DataFrame:
        column = self._udf(*(frame[name] for name in frame.columns))
        return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def signed(schema: pa.Schema) -> pa.Schema:
    """The schema with signed numbers in place of unsigned ones, which Spark does not have."""
    return pa.schema([pa.field(f.name, _signed(f.type), f.nullable) for f in schema])


def _signed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_signed(kind.value_type))
    return pa.int64() if kind == pa.uint64() else kind


def reread(columns: Sequence[pa.ChunkedArray | pa.Array], schema: pa.Schema) -> list[pa.Array]:
    """The same bits as the types of `schema`: from unsigned to signed and back, nothing copied."""
    return [
        column if column.type.equals(field.type) else _view(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]


def _view(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
    return column.view(kind)
