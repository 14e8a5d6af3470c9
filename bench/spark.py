"""How long until Spark's pipeline matches, and how many documents a second once it does?

    python -m bench.spark [--quick]

The documents and subscriptions of `bench.end_to_end`, as lines of JSON, through `broker run`'s
pipeline on this machine. `start`: Spark's start; `compile`: stage 1's compiled form, made once;
`first`: from the start of the stream to the end of its first batch, in which the workers start and load
that form; then documents a second over the other batches, with the wall microseconds of their
stages per document.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from pathlib import Path

from bench.end_to_end import items, subscriptions, text
from bench.generate import rss
from bench.measure import finish, parser
from broker import Broker, Document
from broker.spark.pipeline import STAGES, Progress, run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import json_source

HEAD = (
    f"{'subscriptions':>13}{'start':>7}{'compile':>9}{'first':>7}{'docs/s wall':>13}{'matches':>9}"
    + "".join(f"{name:>9}" for name in STAGES)
)


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
        ended: list[float] = []
        done: list[Progress] = []

        def on_progress(progress: Progress) -> None:
            done.append(progress)

        class Timed:
            """The engine; when each batch was committed."""

            spec = staticmethod(broker.engine.spec)

            @staticmethod
            def apply(*arguments: object, **named: object) -> object:
                found = broker.engine.apply(*arguments, **named)  # type: ignore[arg-type]
                ended.append(time.perf_counter())
                return found

        summary = run_pipeline(
            session,
            Timed(),  # type: ignore[arg-type]
            [json_source(session, lines)],
            Path(scratch) / "checkpoint",
            once=True,
            on_matches=broker.acknowledge,
            on_progress=on_progress,
        )
        stop_session(session)
    later = done[1:]
    number = sum(each.documents for each in later)
    micros = "".join(
        f"{sum(each.seconds[name] for each in later) / number * 1e6:9.1f}" for name in STAGES
    )
    return (
        f"{count:13,}{started - begin:7.1f}{compiled - started:9.2f}{ended[0] - compiled:7.1f}"
        f"{number / (ended[-1] - ended[0]):13,.0f}{summary.matches:9,}{micros}"
    )


def main() -> None:
    gc.set_threshold(10_000, 20, 50)  # as `broker run` does
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
