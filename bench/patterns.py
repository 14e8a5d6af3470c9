"""What does a document cost where event patterns are asked, and as more of them are?

    python -m bench.patterns [--quick]

Quotes of fifty symbols, one a second, in batches of a hundred, through the library with its state in
memory. Five questions: a rise that no fall follows within a minute, the next quote of a symbol that
is dearer, five falls in a row, how many quotes there were between two, the average of five minutes;
each asked once of all symbols, and by very many who ask of one symbol each. Beside it what the same
documents cost with no pattern, and what a script takes that is written for that one question, over
documents that it parses with lxml; its matches are counted against the broker's. Microseconds of
CPU time a document.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from lxml import etree

from bench.frozen import frozen
from bench.measure import finish, parser, table
from broker import Broker, Document

_SYMBOLS = [f"S{n}" for n in range(50)]
_BATCH = 100
_START = 1_790_000_000
Quote = tuple[int, str, int]
"""Time in seconds, symbol, price."""


@dataclass(frozen=True, slots=True)
class Question:
    """`text` has a place for a filter of each block; `script` counts the matches of quotes that
    come in order."""

    name: str
    text: str
    script: Callable[[Iterator[Quote]], int]


def _absence(quotes: Iterator[Quote]) -> int:
    found, last = 0, 0
    price: dict[str, int] = {}
    waiting: dict[str, list[int]] = defaultdict(list)
    for at, symbol, now in quotes:
        # What is over before this quote was not denied.
        due = [t for t in waiting[symbol] if t + 60 < at]
        found += len(due)
        left = [t for t in waiting[symbol] if t + 60 >= at]
        waiting[symbol] = [] if now < 40 else left
        if now > 60:
            waiting[symbol].append(at)
        price[symbol], last = now, at
    return found + sum(t + 60 < last for times in waiting.values() for t in times)


def higher(quotes: Iterable[Quote]) -> int:
    """NEXT by hand: pairs of a quote and the next of its symbol that is higher, within 5 minutes."""
    found = 0
    waiting: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, symbol, now in quotes:
        own = waiting[symbol]
        found += sum(t + 300 >= at and price < now for t, price in own)
        waiting[symbol] = [(t, p) for t, p in own if t + 300 >= at and p >= now]
        waiting[symbol].append((at, now))
    return found


def falls(quotes: Iterable[Quote], least: int = 5) -> int:
    """FOLD by hand: how often a symbol has fallen so many times in a row, or more."""
    found = 0
    fallen: dict[str, tuple[int, int]] = {}
    for _, symbol, now in quotes:
        before, run = fallen.get(symbol, (-1, 0))
        run = run + 1 if now < before else 0
        fallen[symbol] = now, run
        found += run >= least
    return found


def _between(quotes: Iterator[Quote]) -> int:
    found = 0
    recent: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for at, symbol, now in quotes:
        own = recent[symbol]
        while own and own[0][0] + 300 < at:
            own.popleft()
        if now > 90:
            found += sum(
                price < 10 and place < len(own) - 1 for place, (_, price) in enumerate(own)
            )
        own.append((at, now))
    return found


def _average(quotes: Iterator[Quote]) -> int:
    found = 0
    recent: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for at, symbol, now in quotes:
        own = recent[symbol]
        own.append((at, now))
        while own[0][0] + 300 < at:
            own.popleft()
        found += now > 1.5 * sum(price for _, price in own) / len(own)
    return found


_LEFT = "S/q{0}[./s->s][./p->p]"
_RIGHT = "S/q{0}[./s->t][./p->r]"
QUESTIONS = (
    Question(
        "absence",
        f"{_LEFT} FOLLOWED BY {{{{t = s, 1 min}}}} NOT {_RIGHT} WHERE p > 60 AND r < 40",
        _absence,
    ),
    Question("next", f"{_LEFT} NEXT {{{{t = s AND r > p, 5 min}}}} {_RIGHT}", higher),
    Question(
        "falls", f"{_LEFT} FOLD {{{{t = s, r < prev(r, p)}}}} {_RIGHT} WHERE count(r) = 5", falls
    ),
    Question(
        "between",
        f"SELECT s, count(r) AS n FROM {_LEFT} FOLLOWED BY ({_RIGHT})+"
        " FOLLOWED BY S/q{0}[./s->u][./p->e]"
        " WHERE t = s AND u = s AND p < 10 AND e > 90 WITHIN 5 min",
        _between,
    ),
    Question(
        "average",
        f"SELECT s, p FROM {_LEFT} GROUP BY s OVER 5 min HAVING p > 1.5 * avg(p)",
        _average,
    ),
)


def quotes(count: int) -> list[Quote]:
    random = Random(6)
    return [(_START + n, random.choice(_SYMBOLS), random.randrange(100)) for n in range(count)]


def documents(of: list[Quote]) -> list[Document]:
    return [
        Document(str(at), timestamp=float(at), xml=f"<q><s>{symbol}</s><p>{price}</p></q>")
        for at, symbol, price in of
    ]


def broker(text: str | None, every: list[Document]) -> tuple[float, int]:
    """CPU seconds for all documents, and the number of matches. Time does not move beyond them."""
    with Broker(lateness=0) as running:
        if text is not None:
            running.subscribe(text)
        with frozen():
            matches, begun = 0, time.process_time()
            for first in range(0, len(every), _BATCH):
                matches += len(running.process(every[first : first + _BATCH]))
            taken = time.process_time() - begun
        assert not running.engine.take_suspensions()
    return taken, matches


def script(question: Question, every: list[Document]) -> tuple[float, int]:
    def read() -> Iterator[Quote]:
        for document in every:
            root = etree.fromstring(document.xml)
            assert isinstance(document.timestamp, float)
            yield int(document.timestamp), root.findtext("s") or "", int(root.findtext("p") or 0)

    begun = time.process_time()
    found = question.script(read())
    return time.process_time() - begun, found


def many(question: Question, count: int) -> str:
    """As many patterns as that, of one symbol each; those of one symbol differ in nothing else."""
    return ";\n".join(
        f"w{n}: {question.text.format(f'[./s = {_SYMBOLS[n % len(_SYMBOLS)]!r}]')}"
        for n in range(count)
    )


def main() -> None:
    asked = parser(__doc__).parse_args()
    counts = (50,) if asked.quick else (50, 500)
    every = documents(quotes(2_000 if asked.quick else 20_000))
    few = every[: len(every) // 5]
    unit = 1e6 / len(every)
    alone, _ = broker(None, every)
    rows = []
    for question in QUESTIONS:
        one, matches = broker(question.text.format(""), every)
        by_hand, wanted = script(question, every)
        assert matches == wanted, f"{question.name}: {matches} matches, and {wanted} by the script"
        cells = [question.name, f"{matches:,}", f"{by_hand * unit:.1f}", f"{alone * unit:.1f}"]
        cells.append(f"{one * unit:.1f}")
        for count in counts:
            taken, _ = broker(many(question, count), few)
            cells.append(f"{taken * 1e6 / len(few):.0f}")
        rows.append(cells)
        print(*cells, flush=True)
    header = ["question", "matches", "script", "no pattern", "one pattern"]
    header += [f"{count:,} patterns" for count in counts]
    finish("patterns", [table(header, rows)], asked.quick)


if __name__ == "__main__":
    main()
