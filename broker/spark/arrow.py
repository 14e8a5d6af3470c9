"""`mapInArrow` without pandas.

pyspark's own method asks for pandas although nothing of it is used for Arrow record batches: 100 MB
to install, and half a second in every Python worker that imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
