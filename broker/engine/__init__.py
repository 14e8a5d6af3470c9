"""The engine: witnesses and state in, matches out; one DuckDB transaction per batch.

    Arrivals
      | batch.Batches.apply            one transaction: admit, match, store, or nothing of it
      v
    Admitted
      | search.Search.process            rows into the relations, candidates, results
      | search.Search.cascade            results that are documents of other queries' streams
      | search.Search.settle             event patterns that are decided by the time of a document
      v
    SharedMatch, in the outbox

What the engine holds is in `parts.Parts`, and everything else is logic over it. `passing.Passing`
moves the time on without documents, `history.History` is the same search over documents of another
engine, and `suspending` takes queries out that exceed what they may cost. `engine.Engine` is the
door for all of these.
"""

from __future__ import annotations

from broker.engine.engine import Engine
from broker.engine.parts import DEFAULT_BUDGETS, IDLE, LATENESS, steady_time
from broker.engine.retention import Retained

__all__ = ["DEFAULT_BUDGETS", "IDLE", "LATENESS", "Engine", "Retained", "steady_time"]
