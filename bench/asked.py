"""What does it cost the stream when people ask meanwhile: why, which streams, what joins, at what price?

    python -m bench.asked [--quick]

A state of many items takes more, a batch at a time, as a service's pipeline does, while another
thread asks one question after the other without a pause, as the service's own threads do: `why`
rests after each few hundred documents while documents are taken. In rounds that alternate with
rounds in which nobody asks. CPU time: that of the thread that takes documents, for a document, and
that of the whole process, which is what a document takes where only one of them can run. `asked` is
how many questions were answered in a second of the process.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import xscl
from bench.catalogue import item
from bench.measure import finish, parser, table
from broker import Broker, Document
from broker.asking import Asking
from broker.price import dear, quickly
from broker.query.prepared import compile_query
from broker.service.explanations import Rest
from broker.suggest import suggest
from feeds.fair_lock import FairLock

STREAMS = 20
QUERIES = (
    "same: S//item[./item_url->l][./guid->g] FOLLOWED BY {l = m AND g != h, 1 day}"
    " S//item[./item_url->m][./guid->h]",
    "by: S//item[./author->a][./category->c] FOLLOWED BY {a = b AND c = d, 2 h}"
    " S//item[./author->b][./category->d]",
    "quiet: S//item[./author = 'Author 7'] FOLLOWED BY {1 h} NOT S//item[./author = 'Author 8']",
)
WRONG = "q: S//item[./titel->t] FOLLOWED BY {t = u, 1 day} S//item[./title->u]"
FAR = "q: S//item[./item_url->l] FOLLOWED BY {l = m, 1 s} S//item[./item_url->m]"
_EACH = 200
"""Documents of a batch."""


@dataclass(frozen=True, slots=True)
class Round:
    """CPU microseconds a document, of the thread that takes them and of the process; questions
    that were answered in a CPU second of the process."""

    thread: float
    process: float
    asked: float


class Stream:
    """A broker that takes items, and the number of the next one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.next = 0
        self.lock = FairLock()

    def take(self, count: int) -> None:
        for begin in range(self.next, self.next + count, _EACH):
            batch = [
                Document(str(n), ("S", f"f{n % STREAMS}"), n * 20.0, item(n))
                for n in range(begin, begin + _EACH)
            ]
            with self.lock:
                self.broker.process(batch)
            time.sleep(0)  # as between two batches of a pipeline
        self.next += count

    def round(self, count: int, ask: Callable[[], object] | None) -> Round:
        """Takes so many items while somebody asks."""
        ended, answered = threading.Event(), [0]

        def asking() -> None:
            while ask is not None and not ended.is_set():
                ask()
                answered[0] += 1

        beside = threading.Thread(target=asking)
        process, thread = time.process_time(), time.thread_time()
        beside.start()
        self.take(count)
        took, all_of_it = time.thread_time() - thread, time.process_time() - process
        ended.set()
        beside.join()
        return Round(took / count * 1e6, all_of_it / count * 1e6, answered[0] / all_of_it)


def questions(stream: Stream) -> dict[str, Callable[[], object]]:
    engine, catalogue = stream.broker.engine, stream.broker.engine.streams
    wrong, far = (xscl.check([xscl.parse(text)]).queries for text in (WRONG, FAR))
    compiled = [compile_query(query) for query in far]

    def why(queries: tuple[xscl.ResolvedQuery, ...]) -> object:
        return Asking(engine, stream.lock, Rest(stream.lock)).of_queries(queries)

    return {
        "why, a name that is wrong": lambda: why(wrong),
        "why, a window too narrow": lambda: why(far),
        "why, an event pattern": lambda: Asking(
            engine, stream.lock, Rest(stream.lock)
        ).of_subscription("quiet"),
        "streams": lambda: catalogue.stream("S"),
        "suggest": lambda: suggest(catalogue, ["S"], 5),
        "check --cost": lambda: dear(compiled, quickly(catalogue), 1),
    }


def rows(stored: int, count: int, rounds: int) -> list[list[str]]:
    """A row for each question: medians of rounds with it, and of those beside them without."""
    found = []
    with tempfile.TemporaryDirectory() as place, Broker(Path(place), lateness=1e9) as broker:
        for query in QUERIES:
            broker.subscribe(query)
        stream = Stream(broker)
        stream.take(stored)
        for name, ask in questions(stream).items():
            alone, beside = [], []
            for _ in range(rounds):
                alone.append(stream.round(count, None))
                beside.append(stream.round(count, ask))
            found.append([name, *_figures(alone, beside)])
            print(found[-1], flush=True)
    return found


def _figures(alone: list[Round], beside: list[Round]) -> list[str]:
    thread = median(each.thread for each in alone), median(each.thread for each in beside)
    process = median(each.process for each in alone), median(each.process for each in beside)
    return [
        *(f"{thread[0]:,.0f}", f"{thread[1]:,.0f}", f"{thread[1] / thread[0] - 1:+.0%}"),
        *(f"{process[0]:,.0f}", f"{process[1]:,.0f}"),
        f"{median(each.asked for each in beside):.1f}",
    ]


HEAD = (
    *("asked without a pause", "nobody asks, µs", "asked, µs", "dearer"),
    *("process, nobody asks, µs", "process, asked, µs", "asked a CPU second"),
)


def main() -> None:
    args = parser(__doc__).parse_args()
    stored, count, rounds = (2_000, 400, 1) if args.quick else (5_000, 1_000, 4)
    parts = [
        f"{stored:,} items are stored; rounds of {count:,}, {rounds} with and {rounds} without.",
        table(HEAD, rows(stored, count, rounds)),
    ]
    finish("asked", parts, args.quick)


if __name__ == "__main__":
    main()
