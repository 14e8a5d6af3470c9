"""What does a pair of documents cost as each parameter of the queries grows?

    python -m bench.technical [--pairs 300] [--budget 2] [--quick]

The technical benchmark of Massively Multi-Query Join Processing (dissertation, sections 6.6.1 and
6.6.2, figures 6.8 to 6.15): queries of k value joins over a two-level and a three-level schema,
documents two at a time; varied are the number of queries, the number of leaves, the Zipf parameter
of k, and its maximum K. The values between which they vary, and the documents, are our own choice:
each leaf has one of two values that only its pair has, so that half of all single joins match, and
nearly every pair has a signature that none before it had. Every count is held against an exact one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.baselines import BASELINES
from bench.generate import join_queries, technical
from bench.measure import BROKER, Run, Verifier, figures, finish, parser, run, table
from bench.ours import Ours
from bench.workload import Schema, Workload, flat, nested

_MIDDLES = 4


@dataclass(frozen=True, slots=True)
class Point:
    """The parameters of one measurement."""

    leaves: int
    queries: int = 1_000
    skew: float = 0.8
    most: int = 4


SCHEMAS = {"two-level": Point(leaves=8), "three-level": Point(leaves=16)}
"""The two schemas, each with the values of the parameters that are not varied."""

QUERIES, LEAVES, SKEW, MOST = "queries", "leaves", "Zipf parameter", "most value joins"
PARAMETERS: Mapping[str, tuple[str, Sequence[float]]] = {
    QUERIES: ("queries", (10, 100, 1_000, 10_000, 100_000)),
    LEAVES: ("leaves", (4, 8, 16, 32, 64)),
    SKEW: ("skew", (0.0, 0.5, 1.0, 1.5, 2.0)),
    MOST: ("most", (1, 2, 3, 4, 5)),
}
"""What varies: the field of `Point` and its values."""

QUICK: Mapping[str, Sequence[float]] = {QUERIES: (10, 100), MOST: (1, 2)}


def schema_of(name: str, leaves: int) -> Schema:
    if name == "two-level":
        return flat("root", [f"l{n + 1}" for n in range(leaves)])
    return nested("root", _MIDDLES, leaves)


def measure(name: str, point: Point, pairs: int, budget: float) -> list[Run]:
    """All systems at one point, the broker first."""
    documents = technical(schema_of(name, point.leaves), pairs)
    queries = join_queries(point.queries, point.leaves, point.most, point.skew)
    workload = Workload(documents, queries)
    verifier = Verifier(documents)
    runs = []
    for system, factory in ({BROKER: Ours} | BASELINES).items():
        result = run(system, factory, workload, 2, budget)
        verifier.verify(result, workload)
        runs.append(result)
    return runs


def milliseconds(result: Run) -> float:
    """CPU milliseconds for a pair of documents."""
    return result.seconds / result.documents * 2_000


def sweep(name: str, parameter: str, values: Sequence[float], pairs: int, budget: float) -> str:
    """One figure of the paper: a table, and the plot unless quick."""
    field = PARAMETERS[parameter][0]
    rows: list[list[str]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    for value in values:
        point = replace(SCHEMAS[name], **{field: value})  # type: ignore[arg-type]
        if point.most > point.leaves:
            continue
        runs = measure(name, point, pairs, budget)
        rows.append([f"{value:,g}", *(figures(milliseconds(r)) for r in runs)])
        print(f"{name}, {parameter} {value:,g}: " + ", ".join(rows[-1][1:]), flush=True)
        for result in runs:
            series.setdefault(result.name, []).append((value, milliseconds(result)))
    text = f"### {name.capitalize()} schema: {parameter}\n\n" + table((parameter, *series), rows)
    if values is PARAMETERS[parameter][1]:
        from bench.plots import lines

        text += "\n\n" + lines(
            f"technical-{name}-{field}",
            f"{name.capitalize()} schema",
            parameter,
            "CPU ms a pair of documents",
            series,
            log_x=parameter in (QUERIES, LEAVES),
        )
    return text


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=300)
    options.add_argument("--budget", type=float, default=2.0)
    args = options.parse_args()
    pairs, budget = (5, 0.1) if args.quick else (args.pairs, args.budget)
    fixed = "; ".join(
        f"{name}: {p.queries:,} queries, {p.leaves} leaves, Zipf {p.skew}, K = {p.most}"
        for name, p in SCHEMAS.items()
    )
    note = (
        f"CPU milliseconds for a pair of documents, {pairs} pairs or {budget:g} CPU seconds for "
        f"each run. Where not varied, {fixed}; {_MIDDLES} inner nodes."
    )
    parts: list[str] = []
    for name in SCHEMAS:
        for parameter, (_, values) in PARAMETERS.items():
            chosen = QUICK.get(parameter, ()) if args.quick else values
            if chosen:
                parts.append(sweep(name, parameter, chosen, pairs, budget))
    finish("technical", parts, args.quick, note)


if __name__ == "__main__":
    main()
