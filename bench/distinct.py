"""What does an item cost when no two subscriptions are the same query?

    python -m bench.distinct [--items 20000] [--most 100000] [--budget 10] [--quick]

Five leaves give 1,545 canonical queries, however many subscribe. Here all of 100,000 subscriptions
are distinct, in three ways: by constants (an item by author X with keyword Y in its title, then
one with the same link, title or author), by windows (one minute to thirty days), and by leaves
(records with twelve). Batches of 1,000; otherwise as in `bench.rss`.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.generate import constant_queries, rss, wide, wide_queries, window_queries
from bench.measure import Verifier, finish, parser
from bench.rss import Results, every_run, measure, section
from bench.workload import Documents, Query, Workload

_KINDS: dict[str, Callable[[Documents, int], list[Query]]] = {
    "by constants": lambda documents, count: constant_queries(count, documents),
    "by windows": lambda documents, count: window_queries(count),
    "by leaves": lambda documents, count: wide_queries(count),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=20_000)
    options.add_argument("--most", type=int, default=100_000)
    options.add_argument("--budget", type=float, default=10.0)
    args = options.parse_args()
    if args.quick:
        args.items, args.most, args.budget = 1_000, 1_000, 0.3
    parts: list[str] = []
    lines: list[str] = []
    for kind, queries in _KINDS.items():
        documents = wide(args.items) if kind == "by leaves" else rss(args.items)
        verifier = Verifier(documents)
        results: Results = {}
        count = 1_000
        while count <= args.most:
            workload = Workload(documents, queries(documents, count))
            runs, totals = measure(workload, verifier, 1_000, args.budget)
            results = {**results, count: runs}
            lines += [f"{kind}: {line}" for line in totals]
            count *= 10
        parts += [f"### Distinct {kind}", section(results, args.items, "distinct subscriptions")]
    note = f"{args.items:,} items; {args.budget:g} CPU seconds for each run."
    finish("distinct", [*parts, every_run(lines)], args.quick, note)


if __name__ == "__main__":
    main()
