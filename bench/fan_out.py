"""What does one more subscriber of a question cost that many ask?

    python -m bench.fan_out [--quick]

Documents of 2 KB go through the service's files, from the parser to the mailbox: matched, stored in
the outbox, handed over, acknowledged. Every second document completes one match of one question,
which one subscriber has, or ten thousand. The difference is what further subscribers cost, in
microseconds of CPU time each, from medians of thirty matches: `engine` until the batch is committed
with its outbox, `mailbox` from there until the outbox is empty again. Beside it are the bytes of the
mailbox a match, and what it costs to read one.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import xscl
from bench.frozen import frozen
from bench.measure import finish, parser
from broker.documents.witnessing import arrivals
from broker.query.prepared import compile_query
from broker.service.core.core import Core
from broker.settings.schema import Settings
from feeds.rows import DocumentRow

_SIZE = 2_000
_QUERY = "S//item[./title->t] FOLLOWED BY {t = u, 1 h} S//item[./title->u]"
_START = 1_790_000_000_000_000
_BATCH = 2


@dataclass(frozen=True, slots=True)
class Result:
    """CPU seconds of a match in the engine and in the mailbox, medians of all, the bytes that one
    subscriber's takes in the mailbox, and CPU seconds to read some of them."""

    engine: float
    mailbox: float
    bytes: int
    read: float
    were_read: int


def rows(pairs: int) -> list[DocumentRow]:
    found = []
    for n in range(2 * pairs):
        head = (
            f"<item><title>Tides of week {n // 2}</title><link>https://courier.example/{n}</link>"
        )
        text = f"Of the {n}th item. " * 200
        xml = f"{head}<description>{text[: _SIZE - len(head) - 34]}</description></item>"
        found.append(
            DocumentRow(
                "S", str(n), ("S",), _START + n * 1_000_000, True, n + 1, False, xml.encode()
            )
        )
    return found


def run(subscribers: int, pairs: int) -> Result:
    text = ";\n".join(f"reader-{n}: {_QUERY}" for n in range(subscribers))
    every = rows(pairs)
    with tempfile.TemporaryDirectory() as directory:
        core = Core(Settings(state=Path(directory)))
        program = xscl.check([xscl.parse(text, "<fan-out>")])
        core.engine.subscribe([compile_query(query) for query in program.queries])
        with frozen():
            engine: list[float] = []
            mailbox: list[float] = []
            for first in range(0, len(every), _BATCH):
                batch = every[first : first + _BATCH]
                begun = time.process_time()
                witnessed = arrivals(core.engine.matcher, batch)
                found = core.engine.apply(witnessed, now=core.now(), position=batch[-1].seq)
                applied = time.process_time()
                core.hand_over(found)
                ended = time.process_time()
                engine.append(applied - begun)
                mailbox.append(ended - applied)
                del found
            assert core.mailbox.last() == subscribers * pairs
            begun = time.process_time()
            read = core.mailbox.matches(None, 0, 1_000)
            total = sum(len(each.match.result) for each in read)
            taken = time.process_time() - begun
            assert total > len(read) * 2 * _SIZE
            core.mailbox.compact()
            size = (Path(directory) / "mailbox.sqlite").stat().st_size
        core.close()
    return Result(median(engine), median(mailbox), size // (subscribers * pairs), taken, len(read))


def main() -> None:
    asked = parser(__doc__).parse_args()
    many, pairs = (1_000, 10) if asked.quick else (10_000, 30)
    lines = [f"{'subscribers':>12}{'engine':>9}{'mailbox':>9}{'in all':>8}{'bytes':>8}{'read':>7}"]
    for count in (100, many):
        alone, all_of_them = run(1, pairs), run(count, pairs)
        engine = (all_of_them.engine - alone.engine) / (count - 1) * 1e6
        mailbox = (all_of_them.mailbox - alone.mailbox) / (count - 1) * 1e6
        read = all_of_them.read / all_of_them.were_read * 1e6
        lines.append(
            f"{count:12,}{engine:9.2f}{mailbox:9.2f}{engine + mailbox:8.2f}"
            f"{all_of_them.bytes:8,}{read:7.1f}"
        )
    finish("fan_out", ["```text\n" + "\n".join(lines) + "\n```"], asked.quick)


if __name__ == "__main__":
    main()
