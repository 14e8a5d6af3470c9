"""How many times as fast are two processes, compiled modules, and this checkout beside another one?

    python -m bench.versus [CHECKOUT …] [--plain] [--batch N] [--quick]

Feed items of 2 KB go through the library with a state directory, as in `end_to_end`: each way is a
process with a state of its own, and all get the same blocks of documents one after the other, every
second time in reverse order, so what else happens on the machine hits all alike. The first way is
what the others are compared with: the first CHECKOUT, a directory with an older state of the
project, or this one in one process. Ratios are medians of those of each block. All have to find
equally many matches. With `--plain` nothing is compiled, which takes minutes and a C compiler.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.end_to_end import items, subscriptions, text
from bench.generate import rss
from bench.measure import finish, parser, table
from tests import compiled

HERE = Path(__file__).parent
_WARM = 2_000
_WAY = (HERE / "versus_way.py").read_text(encoding="utf-8")
"""What each process runs; it imports all else from its own checkout."""


@dataclass(frozen=True, slots=True)
class Block:
    """Documents a second of wall and of CPU time, and matches."""

    wall: float
    cpu: float
    matches: int


class Way:
    """A process that matches blocks of documents. `mode`: "one" or "two", the processes that it
    uses; `data`: a file of subscriptions and documents."""

    def __init__(self, name: str, checkout: Path, mode: str, data: Path) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"{_WAY}\nmain()", mode, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        self._answer()

    def match(self, first: int, last: int, batch: int) -> Block:
        assert self._process.stdin is not None
        print(first, last, batch, file=self._process.stdin, flush=True)
        wall, cpu, matches = self._answer().split()
        return Block(float(wall), float(cpu), int(matches))

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: ended with {self._process.wait()}")
        return line


@contextmanager
def compiled_copy(wanted: bool) -> Iterator[Path | None]:
    """A copy of this checkout with compiled modules, None if it is not wanted."""
    with tempfile.TemporaryDirectory(prefix="versus-") as directory:
        copy = Path(directory) / "project"
        if wanted:
            print("compiling", flush=True)
            compiled.build(copy)
        yield copy if wanted else None


def compared(
    checkouts: Sequence[Path], copy: Path | None, count: int, rounds: int, block: int, batch: int
) -> list[list[str]]:
    """A row for each way under so many subscriptions."""
    documents = rss(_WARM + rounds * block)
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file, ExitStack() as ways:
        every = [(each.id, each.timestamp, each.xml) for each in items(documents)]
        pickle.dump((text(documents, subscriptions(documents, count)), every), file)
        file.flush()
        both = [(HERE.parent, "plain"), *([(copy, "compiled")] if copy else [])]
        kinds = [(f"{checkout.name}, one", checkout, "one") for checkout in checkouts]
        kinds += [(f"{how}, {mode}", path, mode) for path, how in both for mode in ("one", "two")]
        running = [Way(name, path, mode, Path(file.name)) for name, path, mode in kinds]
        for way in running:
            ways.callback(way.close)
            way.match(0, _WARM, batch)
        for i in range(rounds):
            first = _WARM + i * block
            for way in running if i % 2 == 0 else running[::-1]:
                way.blocks.append(way.match(first, first + block, batch))
            print(
                i, *(f"{w.name}: {w.blocks[-1].wall:,.0f}" for w in running), sep="  ", flush=True
            )
    return [row(count, way.name, way.blocks, running[0].blocks) for way in running]


def row(count: int, name: str, blocks: list[Block], basis: list[Block]) -> list[str]:
    """What the table says of a way, beside the blocks of the one that it is compared with."""
    if [each.matches for each in blocks] != [each.matches for each in basis]:
        raise RuntimeError(f"{name}: not the matches of the first way")
    pairs = list(zip(blocks, basis, strict=True))
    return [
        f"{count:,}",
        name,
        f"{median(each.wall for each in blocks):,.0f}",
        f"{median(one.wall / other.wall for one, other in pairs):.2f}",
        f"{median(each.cpu for each in blocks):,.0f}",
        f"{median(one.cpu / other.cpu for one, other in pairs):.2f}",
    ]


HEAD = (
    "subscriptions",
    "way, processes",
    "documents/s",
    "times",
    "documents/CPU s of the first process",
    "times",
)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    options.add_argument("--plain", action="store_true")
    options.add_argument("--batch", type=int, default=1_000)
    args = options.parse_args()
    checkouts = [each.resolve(strict=True) for each in args.checkouts]
    counts, rounds, block = ((100,), 2, 2_000) if args.quick else ((100, 100_000), 10, 6_000)
    with compiled_copy(not (args.plain or args.quick)) as copy:
        rows = [
            row
            for count in counts
            for row in compared(checkouts, copy, count, rounds, block, args.batch)
        ]
    note = f"{rounds} blocks of {block:,} documents by turns, {args.batch:,} at a time; medians."
    finish("versus", [table(HEAD, rows)], args.quick, note)


if __name__ == "__main__":
    main()
