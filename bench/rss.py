"""How many feed items does a CPU second join, as subscriptions grow to a million?

    python -m bench.rss [--items 225000] [--most 1000000] [--budget 10] [--quick]

The feed experiment of Massively Multi-Query Join Processing (SIGMOD 2007; dissertation, section
6.6.3) with items of our own making: 225,000 items of 418 channels, five leaves, queries of one to
five value joins, windows of INFINITY; one item at a time and a thousand at a time. All systems run
one after the other on the same witness columns and count matches; parsing and stage 1 are left
out, since they are the same for all. Every count is held against an exact one. The broker joins
all items. Another system that has used up its budget of CPU seconds is stopped; its rate is that of
the items it has joined, which are the easy ones, with little before them to join with.

The broker answers a probe with lists of documents, which are complete and in order of time. To
count them is to look at each; what it takes to have the answer and leave the lists alone is
measured too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf

from bench.baselines import BASELINES
from bench.generate import CHANNELS, ITEMS, join_queries, rss
from bench.measure import BROKER, Run, Verifier, figures, finish, parser, run, table
from bench.ours import Ours
from bench.workload import Workload

Results = Mapping[int, Sequence[Run]]
"""Runs of all systems by the number of subscriptions."""


def shown(result: Run, items: int) -> str:
    """Items a CPU second; with how many items were joined, if not all."""
    rate = figures(result.rate)
    return rate if result.documents == items else f"{rate} (first {result.documents:,})"


def beside(ours: Run, other: Run) -> str:
    """How many times the broker's CPU time another system takes for the same items."""
    documents = min(ours.documents, other.documents)
    return f"{other.seconds_at(documents) / ours.seconds_at(documents):,.1f}"


def section(results: Results, items: int, what: str = "subscriptions") -> str:
    """Tables of the rates, of the broker's lead, and of the time it takes to register."""
    names = [result.name for result in next(iter(results.values()))]
    parts = [
        f"Items a CPU second, of {items:,} items:\n\n"
        + table(
            (what, *names),
            [(f"{n:,}", *(shown(r, items) for r in runs)) for n, runs in results.items()],
        )
    ]
    if names[0] == BROKER:
        parts.append(
            "CPU time for the same items, times that of this broker:\n\n"
            + table(
                (what, *names[1:]),
                [
                    (f"{n:,}", *(beside(runs[0], other) for other in runs[1:]))
                    for n, runs in results.items()
                ],
            )
        )
    parts.append(
        "CPU seconds to register (joins already compiled, no text parsed):\n\n"
        + table(
            (what, *names),
            [(f"{n:,}", *(figures(r.setup) for r in runs)) for n, runs in results.items()],
        )
    )
    return "\n\n".join(parts)


def every_run(lines: Sequence[str]) -> str:
    """What each system did in each run, as it was printed."""
    return "### Every run\n\n```text\n" + "\n".join(lines) + "\n```"


def measure(
    workload: Workload, verifier: Verifier, size: int, budget: float, whole: bool = False
) -> tuple[list[Run], list[str]]:
    """All systems in one go, the broker first, and a line on each; `whole`: the broker joins all
    documents, whatever its budget."""
    runs, totals = [], []
    for name, factory in ({BROKER: Ours} | BASELINES).items():
        enough = inf if whole and name == BROKER else budget
        result = run(name, factory, workload, size, enough)
        found = verifier.verify(result, workload)
        of = f" of {len(result.sample)} of them" if result.sample is not None else ""
        line = (
            f"{len(workload.queries):,} subscriptions, batches of {size:,}: {name}, "
            f"{result.documents:,}"
            f" items in {figures(result.seconds)} CPU s, {found:,} matches{of}, as counted exactly"
        )
        print(line, flush=True)
        totals.append(line)
        runs.append(result)
    return runs, totals


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=ITEMS)
    options.add_argument("--most", type=int, default=1_000_000)
    options.add_argument("--budget", type=float, default=10.0)
    args = options.parse_args()
    if args.quick:
        args.items, args.most, args.budget = 2_000, 1_000, 0.3
    documents = rss(args.items)
    verifier = Verifier(documents)
    found: dict[int, dict[int, list[Run]]] = {1: {}, 1_000: {}}
    answered: dict[int, list[tuple[str, str]]] = {size: [] for size in found}
    distinct, lines, count = [], [], 10
    while count <= args.most:
        workload = Workload(documents, join_queries(count))
        distinct.append((f"{count:,}", f"{len(workload.distinct):,}"))
        for size, results in found.items():
            results[count], totals = measure(workload, verifier, size, args.budget, whole=True)
            lines += totals
            answering = run(BROKER, partial(Ours, counting=False), workload, size, inf)
            answered[size].append((f"{count:,}", figures(answering.rate)))
        count *= 10
    parts = [table(("subscriptions", "distinct"), distinct)]
    for size, results in found.items():
        heading = "One item at a time" if size == 1 else f"{size:,} items at a time"
        parts += [
            f"### {heading}",
            section(results, args.items),
            "Items a CPU second of the broker where nobody counts:\n\n"
            + table(("subscriptions", BROKER), answered[size]),
        ]
        if not args.quick:
            parts.append(chart(size, heading, results))
    note = (
        f"{args.items:,} items of {CHANNELS} channels; {args.budget:g} CPU seconds for each run of"
        " a baseline."
    )
    finish("rss", [*parts, every_run(lines)], args.quick, note)


def chart(size: int, heading: str, results: Results) -> str:
    from bench.plots import lines

    series: dict[str, list[tuple[float, float]]] = {}
    for count, runs in results.items():
        for result in runs:
            series.setdefault(result.name, []).append((count, result.rate))
    title = f"Feed items, {heading[0].lower()}{heading[1:]}"
    return lines(f"rss-batch-{size}", title, "subscriptions", "items a CPU second", series)


if __name__ == "__main__":
    main()
