"""What does a document cost where 1,000 event patterns each keep some of their matches?

    python -m bench.patterns_several [--quick]

NON OVERLAPPING, ONE PER START and windows of OVER look at several matches of a query. The queries
differ in a constant: quotes, one a second, of 200 symbols, each taken by one query of 1,000; and
documents for a first block that all of them have in common, each taken by all. From XML to matches,
in batches of 1 and of 100, matched together and, as it was before, query by query: equal counts of
matches are asserted. CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from bench.frozen import frozen
from bench.measure import finish, parser, table
from broker import Broker, Document

_QUERIES = 1_000
_SYMBOLS = 200
_WARM = 100
_LEFT = "S/q[./s = '{0}'][./p->p]"
_RIGHT = "S/q[./s = '{0}'][./p->r]"
_FIRST = "S/a[./p->p]"
QUESTIONS = {
    "NEXT, NON OVERLAPPING": f"{_LEFT} NEXT {{{{5 min}}}} {_RIGHT} USING NON OVERLAPPING",
    "a list, NON OVERLAPPING": f"{_LEFT} FOLLOWED BY {_RIGHT} USING NON OVERLAPPING WITHIN 20 min",
    "a list, ONE PER START": f"{_LEFT} FOLLOWED BY {_RIGHT} USING ONE PER START WHERE r > p"
    " WITHIN 20 min",
    "NEXT, OVER": f"{_LEFT} NEXT {{{{5 min}}}} {_RIGHT} GROUP BY p OVER 30 min HAVING r = max(r)",
    "one first block, NON OVERLAPPING": f"{_FIRST} FOLLOWED BY {_RIGHT} USING NON OVERLAPPING"
    " WITHIN 1 min",
    "one first block, ONE PER START": f"{_FIRST} FOLLOWED BY {_RIGHT} USING ONE PER START"
    " WITHIN 1 min",
}


def documents(name: str, count: int) -> list[Document]:
    """Quotes, every second of them a document for the first block where all have one."""
    random = Random(6)
    found = []
    for number in range(count):
        xml = f"<q><s>S{random.randrange(_SYMBOLS)}</s><p>{random.randrange(100)}</p></q>"
        if _FIRST in QUESTIONS[name] and number % 2:
            xml = f"<a><p>{random.randrange(100)}</p></a>"
        found.append(Document(str(number), timestamp=1_790_000_000.0 + number, xml=xml))
    return found


def measured(name: str, every: Sequence[Document], size: int, together: bool) -> tuple[float, int]:
    """CPU seconds of a document, and the number of matches."""
    with Broker(lateness=0) as running:
        running.engine.standings.match_in_order(together)
        text = QUESTIONS[name]
        running.subscribe(";\n".join(f"w{n}: {text.format(f'S{n}')}" for n in range(_QUERIES)))
        running.process(every[:_WARM])
        with frozen():
            matches, begun = 0, time.process_time()
            for first in range(_WARM, len(every), size):
                matches += len(running.process(every[first : first + size]))
            taken = time.process_time() - begun
        assert not running.engine.take_suspensions()
    return taken / (len(every) - _WARM), matches


def main() -> None:
    asked = parser(__doc__).parse_args()
    rows = []
    for name in QUESTIONS:
        every = documents(name, 300 if asked.quick else 2_000)
        cells, counts = [name], set()
        for size in (1, 100):
            for together in (False, True):
                taken, matches = measured(name, every, size, together)
                counts.add(matches)
                cells.append(f"{1e6 * taken:,.0f}")
        assert len(counts) == 1, f"{name}: {sorted(counts)} matches"
        cells.insert(1, f"{counts.pop():,}")
        rows.append(cells)
        print(*cells, flush=True)
    finish(
        "patterns_several",
        [
            f"{_QUERIES:,} queries, from XML to matches; microseconds of a document:",
            table(
                [
                    *("question", "matches", "each by itself, batch 1", "together, batch 1"),
                    *("each by itself, batch 100", "together, batch 100"),
                ],
                rows,
            ),
        ],
        asked.quick,
    )


if __name__ == "__main__":
    main()
