"""The match relations as the join needs them; a state has them, or a shard of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PART = "part"
"""The relation that `load_part` makes."""


class Relations(Protocol):
    """RL, the witness rows of all live documents; `broker/state/relations.py` says more."""

    @property
    def rows(self) -> Rows: ...
    @property
    def queried(self) -> QueriedRelations: ...


class Rows(Protocol):
    """The rows of RL, as record batches with the columns doc, base, start, end, var1, var2, node1,
    node2 and value, those of each document together; `broker/state/witness_rows.py` says more."""

    def end_after_newest(self, count: int) -> int | None: ...
    def since(self, end: int) -> Iterator[pa.RecordBatch]: ...
    def of(self, docs: Sequence[int]) -> Iterator[pa.RecordBatch]: ...
    def values_before(self, end: int) -> npt.NDArray[np.uint64]: ...
    def documents_with(self, values: Sequence[int], low: int, high: int) -> list[int]: ...


class QueriedRelations(Protocol):
    """The temporary relations for queries in SQL over RL, and these queries;
    `broker/state/queried_relations.py` says more of each."""

    def prepare(self, macros: str, define: Callable[[Any], object]) -> None: ...
    def create_parameters(self, definition: str) -> None: ...
    def load_parameters(self, table: str, gone: Collection[int], rows: pa.Table | None) -> None: ...
    def load_batch(self, rows: pa.Table) -> None: ...
    def load_slice(self, docs: Sequence[int]) -> None: ...
    def load_part(self, of: str, later: Collection[int]) -> None: ...
    def query(
        self, query: str, parameters: dict[str, Any], *, in_order: bool = False
    ) -> list[tuple[Any, ...]]: ...
