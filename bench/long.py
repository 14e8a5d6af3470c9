"""What does a document cost where a match takes three documents?

    python -m bench.long [--quick]

Each subscription is "a story that three items carry, each within an hour of the one before": one
for all items, or a thousand, each of which wants the first item from a source of its own. A title
recurs often (nine matches an item) or seldom, and items come by themselves or in batches. Beside it
the template's query in SQL, which has decided all such subscriptions before and still decides those
that steps in memory do not: CPU time of the join and of everything, and the matches, which have to
be the same.
"""

from __future__ import annotations

import time
from random import Random

from bench.frozen import frozen
from bench.measure import CpuClock, finish, parser, table
from broker import Broker, Document

BEFORE = 2_000
"""Items that are there when measuring begins."""

_IN_SQL = (-1, 0)
"""So many documents are looked at in memory."""


def subscriptions(count: int) -> str:
    rest = (
        "[./title->t] FOLLOWED BY {t = u, 1 h} S//item[./title->u]"
        " FOLLOWED BY {u = v, 1 h} S//item[./title->v];\n"
    )
    if count == 1:
        return f"q: S//item{rest}"
    return "".join(f"q{n}: S//item[./source = 'source {n}']{rest}" for n in range(count))


def items(count: int, share: float) -> list[Document]:
    """Items ten seconds apart; this share of them has one of the last sixty titles again."""
    random = Random(5)
    titles: list[str] = []
    made = []
    for n in range(count):
        if titles and random.random() < share:
            title = random.choice(titles[-60:])
        else:
            title = f"story {n} of the day"
            titles.append(title)
        xml = (
            f"<item><source>source {random.randrange(1_000)}</source><title>{title}</title>"
            f"<author>Author {random.randrange(500)}</author></item>"
        )
        made.append(Document(f"d{n}", "S", 1_790_000_000.0 + 10 * n, xml))
    return made


def measured(count: int, share: float, batch: int, number: int, in_sql: bool) -> list[float]:
    """Matches, and CPU milliseconds a batch, of the join and of everything."""
    with Broker(lateness=0) as broker:
        broker.subscribe(subscriptions(count))
        engine = broker.engine
        if in_sql:
            engine.joiner.long.most = _IN_SQL
        sample = items(BEFORE + number, share)
        for start in range(0, BEFORE, 500):
            broker.process(sample[start : min(start + 500, BEFORE)])
        matches = 0
        clock = engine.clock = CpuClock()
        with frozen():
            begin = time.process_time()
            for start in range(BEFORE, len(sample), batch):
                matches += len(broker.process(sample[start : start + batch]))
            whole = time.process_time() - begin
        each = 1_000 * batch / number
        return [matches, clock.seconds["join"] * each, whole * each]


def main() -> None:
    args = parser(__doc__).parse_args()
    sizes = {1: 20, 100: 200} if args.quick else {1: 200, 100: 3_000, 1_000: 6_000}
    rows = []
    for count in (1, 1_000):
        for name, share in (("often", 2 / 3), ("seldom", 0.05)):
            for batch, number in sizes.items():
                steps = measured(count, share, batch, number, in_sql=False)
                sql = measured(count, share, batch, number, in_sql=True)
                if steps[0] != sql[0]:
                    raise SystemExit(f"{steps[0]:,} matches in memory, {sql[0]:,} in SQL")
                figures = [*steps[1:], *sql[1:]]
                each = [f"{figure:,.2f}" for figure in figures]
                rows.append([f"{count:,}", name, f"{batch:,}", f"{steps[0] / number:.2f}", *each])
                print(*rows[-1], flush=True)
    head = [
        *("subscriptions", "a title recurs", "batch", "matches an item"),
        *("join, ms a batch", "all, ms a batch", "join in SQL", "all with it"),
    ]
    note = f"{BEFORE:,} items are there before; CPU time."
    finish("long", [table(head, rows)], args.quick, note)


if __name__ == "__main__":
    main()
