"""How many items a second does the main job process, where does the time go, and how does that
compare with the obvious script?

    python -m bench.main_job [--archive DIR]

The main job is a feed archive (`<feed>/<UTC time>_….xml`) under the eight subscriptions in
`archive.xscl`. Three ways in one run: the library with a durable state, the Spark pipeline over the
same items, and a script as one would write it without this project: each query's XPath on each
item, and a Python loop over the pairs. All three have to find the same matches.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lxml import etree

import xscl
from bench.generate import SECOND
from bench.measure import CpuClock
from bench.pipeline import run_spark
from broker import Broker
from broker.cli.replay import batches
from broker.model import UNBOUNDED
from broker.shared_match import each_match
from feeds.archive import replay
from feeds.rows import DocumentRow
from xscl import ast

HERE = Path(__file__).parent
QUERIES = HERE / "archive.xscl"


@contextmanager
def cpu(times: dict[str, float], name: str) -> Iterator[None]:
    """Adds the CPU seconds of this process that the block takes."""
    begin = time.process_time()
    yield
    times[name] = times.get(name, 0.0) + time.process_time() - begin


def library(rows: list[DocumentRow], times: dict[str, float]) -> set[str]:
    """The engine with a state directory, batches of 500. Matches as keys."""
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as state, Broker(state, lateness=math.inf) as broker:
        broker.subscribe(QUERIES.read_text())
        clock = broker.engine.clock = CpuClock()
        todo = batches(iter(rows), broker.engine.matcher)
        while True:
            with cpu(times, "stage 1 (with XML parsing)"):
                batch = next(todo, None)
            if batch is None:
                break
            arrivals, _ = batch
            with cpu(times, "stage 2"):
                matches = each_match(broker.engine.apply(arrivals))
                broker.acknowledge(matches)
            found |= {
                f"{m.query} {' '.join(d.id for d in m.documents)} "
                f"{' '.join(d.stream for d in m.documents)}"
                for m in matches
            }
        for step, seconds in clock.seconds.items():
            times[f"stage 2, of which {step}"] = seconds
    return found


def spark(rows: list[DocumentRow]) -> tuple[int, dict[str, float]]:
    """The pipeline over the same items: matches, and seconds by stage."""
    documents = (
        {
            "id": row.id,
            "source": row.source,
            "stream": list(row.streams),
            "timestamp": row.timestamp / SECOND,
            "xml": row.xml.decode(),
        }
        for row in rows
    )
    summary, started = run_spark(documents, QUERIES.read_text(), UNBOUNDED)
    return summary.matches, {"start Spark": started, **summary.seconds, "elapsed": summary.elapsed}


def script(rows: list[DocumentRow]) -> set[str]:
    """The obvious way: XPath per query and item, then all pairs of what was kept."""
    found: set[str] = set()
    program = xscl.check([xscl.parse(QUERIES.read_text())])
    plans = []
    for query in program.queries:
        join = query.query.pattern
        assert isinstance(join, ast.Join)
        assert join.window is not None
        assert join.window.microseconds is not None
        assert join.predicate is not None
        conditions = (
            join.predicate.parts if isinstance(join.predicate, ast.And) else (join.predicate,)
        )
        plans.append((query.id, join.left, join.right, join.window.microseconds, conditions))
    kept: dict[tuple[str, int], list[tuple[DocumentRow, dict[str, list[str]]]]] = {}
    for row in rows:
        root = etree.fromstring(row.xml)
        for name, left, right, window, conditions in plans:
            sides = []
            for block in (left, right):
                assert isinstance(block, ast.Block)
                sides.append(bind(root, block) if block.stream in row.streams else None)
            for side, own in enumerate(sides):
                if own is None:
                    continue
                for other, values in kept.get((name, 1 - side), []):
                    if other is row or abs(other.timestamp - row.timestamp) > window:
                        continue
                    a, b = (own, values) if side == 0 else (values, own)
                    first, second = (row, other) if side == 0 else (other, row)
                    if all(holds(c, a | b) for c in conditions):
                        found.add(
                            f"{name} {first.id} {second.id} {first.streams[0]} {second.streams[0]}"
                        )
            for side, own in enumerate(sides):
                if own is not None:
                    kept.setdefault((name, side), []).append((row, own))
    return found


def _string(node: object) -> str:
    assert isinstance(node, etree._Element)
    return str(node.xpath("string()"))


def bind(root: etree._Element, block: ast.Block) -> dict[str, list[str]] | None:
    """Values of a block's variables in an item, by XPath; None where a filter fails."""
    values: dict[str, list[str]] = {}
    for part in block.steps[0].filters:
        if isinstance(part, ast.Path):
            step = part.steps[0]
            nodes = root.xpath(f"./{step.test.name}")
            if not nodes:
                return None
            assert isinstance(nodes, list)
            values[step.variable or ""] = [_string(node) for node in nodes]
        elif not root.xpath("contains(./title, 'Covid')"):
            return None
    return values


def holds(condition: ast.Expr, values: dict[str, list[str]]) -> bool:
    assert isinstance(condition, ast.Comparison)
    assert isinstance(condition.left, ast.Path)
    assert isinstance(condition.right, ast.Path)
    left, right = (values[p.variable or ""] for p in (condition.left, condition.right))
    if condition.op == "=":
        return any(x == y for x in left for y in right)
    return any(x != y for x in left for y in right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--archive", type=Path, default=HERE.parents[1] / "shared/data/rss_bbc_sections/snapshots"
    )
    args = parser.parse_args()
    times: dict[str, float] = {}
    with cpu(times, "feed parsing (feedparser)"):
        every = [row for row in replay(args.archive) if row.error is None]
    # Revisions are left out: the script has no notion of them.
    rows = [row for row in every if not row.revision]
    print(
        f"{len(every):,} items and revisions in {args.archive.name}; {len(rows):,} items, 8 "
        "queries\n"
    )
    ours = library(rows, times)
    with cpu(times, "the obvious script"):
        theirs = script(rows)
    count, stages = spark(rows)
    print(f"{'step':44}{'CPU s':>9}{'items/s':>12}")
    for name, seconds in times.items():
        shown = f"{len(rows) / seconds:12,.0f}" if "of which" not in name else ""
        print(f"{name:44}{seconds:9.2f}{shown}")
    total = times["stage 1 (with XML parsing)"] + times["stage 2"]
    print(f"{'library in all, without feed parsing':44}{total:9.2f}{len(rows) / total:12,.0f}")
    print(f"\n{'Spark pipeline, once':44}{'wall s':>9}{'items/s':>12}")
    for name, seconds in stages.items():
        print(f"{name:44}{seconds:9.2f}")
    print(f"{'after the start':44}{stages['elapsed']:9.2f}{len(rows) / stages['elapsed']:12,.0f}")
    print(f"\nmatches: library {len(ours):,}, script {len(theirs):,}, Spark {count:,}")
    if ours != theirs or count != len(ours):
        raise SystemExit("the three ways disagree")
    print(f"script / library: {times['the obvious script'] / total:.1f} times the CPU time")


if __name__ == "__main__":
    main()
