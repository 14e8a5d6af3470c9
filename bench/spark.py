"""How long until Spark's pipeline matches, and how many documents a second once it does?

    python -m bench.spark [--quick]

The documents and subscriptions of `bench.end_to_end`, as lines of JSON, through `broker run`'s
pipeline on this machine. `start`: Spark's start; `compile`: stage 1's compiled form, made once;
`first`: from the start of the stream to the end of its first batch, in which the workers start and load
that form; then documents a second over the other batches, with the wall microseconds of their
stages per document.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.end_to_end import items, subscriptions, text
from bench.generate import rss
from bench.measure import finish, parser
from broker import Broker, Document
from broker.documents.arrow import Arrivals
from broker.engine import Engine
from broker.runs import Progress
from broker.shared_match import SharedMatch
from broker.spark.pipeline import STAGES, run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import json_source
from feeds.rows import DocumentRow
from xscl.growth import collect_rarely

HEAD = (
    f"{'subscriptions':>13}{'start':>7}{'compile':>9}{'first':>7}{'docs/s wall':>13}{'matches':>9}"
    + "".join(f"{name:>9}" for name in STAGES)
)


class Timed:
    """An engine that notes when each batch was committed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.ended: list[float] = []

    def spec(self) -> bytes:
        return self._engine.spec()

    def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
        return self._engine.witness(rows)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        found = self._engine.apply(arrivals, now, position)
        self.ended.append(time.perf_counter())
        return found


def measured(documents: list[Document], queries: str, count: int) -> str:
    """A line of the table."""
    with tempfile.TemporaryDirectory() as scratch, Broker(scratch) as broker:
        lines = Path(scratch) / "items.jsonl"
        with lines.open("w") as file:
            for each in documents:
                assert isinstance(each.xml, bytes)
                line = {"id": each.id, "timestamp": each.timestamp, "xml": each.xml.decode()}
                file.write(json.dumps(line) + "\n")
        broker.subscribe(queries)
        begin = time.perf_counter()
        session = start_session()
        started = time.perf_counter()
        broker.engine.spec()
        compiled = time.perf_counter()
        engine = Timed(broker.engine)
        done: list[Progress] = []
        summary = run_pipeline(
            session,
            engine,
            [json_source(session, lines)],
            Path(scratch) / "checkpoint",
            once=True,
            on_matches=broker.acknowledge,
            on_progress=done.append,
        )
        stop_session(session)
    later = done[1:]
    number = sum(each.documents for each in later)
    micros = "".join(
        f"{sum(each.seconds[name] for each in later) / number * 1e6:9.1f}" for name in STAGES
    )
    return (
        f"{count:13,}{started - begin:7.1f}{compiled - started:9.2f}{engine.ended[0] - compiled:7.1f}"
        f"{number / (engine.ended[-1] - engine.ended[0]):13,.0f}{summary.matches:9,}{micros}"
    )


def main() -> None:
    collect_rarely()  # as `broker run` does
    args = parser(__doc__).parse_args()
    size = 20_000 if args.quick else 60_000
    documents = rss(size)
    every = items(documents)
    lines = [HEAD]
    print(HEAD, flush=True)
    for count in (100, 100_000):
        lines.append(measured(every, text(documents, subscriptions(documents, count)), count))
        print(lines[-1], flush=True)
    finish("spark", ["\n".join(lines)], args.quick)


if __name__ == "__main__":
    main()
