"""Whose a match is, where several machines share the work of one engine.

One machine holds all queries, reads all rows and owns all matches. Where there are several, each
match has to be made in exactly one of them; `broker/cluster` says in which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from broker.join.records import Record
from broker.query.canonical import Canonical


class Ownership(Protocol):
    """What one of several machines does of the join."""

    def holds(self, canonical: Canonical) -> bool:
        """Whether it searches for matches of a canonical query at all."""

    def decides(self, pattern: Canonical) -> bool:
        """Whether it matches an event pattern."""

    def reads(self, rows: pa.Table) -> pa.Table:
        """Those of witness rows that the queries which it holds need."""

    def owns(
        self, canonical: Canonical, docs: Sequence[int], records: Sequence[Record | None]
    ) -> bool:
        """Whether a match of these documents, given by block, is its own. They are in memory, but
        for queries whose blocks no value joins connect."""


class Everything:
    """The ownership of one machine without others."""

    def holds(self, canonical: Canonical) -> bool:
        return True

    def decides(self, pattern: Canonical) -> bool:
        return True

    def reads(self, rows: pa.Table) -> pa.Table:
        return rows

    def owns(
        self, canonical: Canonical, docs: Sequence[int], records: Sequence[Record | None]
    ) -> bool:
        return True


ALL = Everything()
