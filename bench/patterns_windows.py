"""What do windows, equal attributes and strategies save or cost an event pattern?

    python -m bench.patterns_windows [--quick]

SASE's questions about a sequence of three: its window, 100 to 10,000 s, against the same window
asked of each match (`duration()`); an attribute that all three have in common, of 1 to 1,000
values, against the same equality as two inequalities, for which nothing is kept apart. SASE+'s
about a group between two blocks: which documents may be skipped, and whether each match is wanted
or one for each beginning. Quotes, one a second, whose rows come to one registered pattern in
batches of a hundred; all matches are counted against scripts. Events per CPU second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench import pattern_scripts
from bench.measure import BROKER, finish, parser, table
from bench.pattern_plots import plotted
from bench.pattern_rows import Asked, Block, Quote, compiled, quotes, rate, step

_SIZE = 100
_WINDOW = 300
"""Seconds, where the window is not what is varied."""
_THREE = (Block(0, 4, "s0 p0"), Block(95, 99, "s1 p1"), Block(0, 4, "s2 p2"))
_LIST = "{0} FOLLOWED BY {1} FOLLOWED BY {2} WHERE "
_TIES = "s0 = s1 AND s1 = s2"
_APART = "s0 <= s1 AND s0 >= s1 AND s1 <= s2 AND s1 >= s2"


def measured(text: str, blocks: tuple[Block, ...], every: Sequence[Quote]) -> tuple[float, int]:
    """Events per CPU second, and the number of matches."""
    pattern = compiled(text.format(*(block.text() for block in blocks)))
    taken, found = step(pattern, every, [Asked("", blocks)], _SIZE)
    return len(every) / taken, len({*found})


def numbered(count: int, symbols: int) -> list[Quote]:
    """Quotes whose symbols are numbers, so that they can be compared as such."""
    return [(at, symbol[1:], price) for at, symbol, price in quotes(count, symbols)]


def three(every: Sequence[Quote], window: int) -> int:
    _, found = pattern_scripts.run(pattern_scripts.sequence, [Asked("", _THREE)], every, window)
    return len(found)


Series = dict[str, list[tuple[float, float]]]


def compared(
    at: int, within: int, every: Sequence[Quote], asked: Mapping[str, str], series: Series
) -> list[str]:
    """A row of a table about sequences of three: what is varied, the matches, and the rates of
    questions that find the same, which are added to the series under their names."""
    wanted = three(every, within)
    cells = [f"{at:,}", f"{wanted:,}"]
    for name, condition in asked.items():
        events, found = measured(f"{_LIST}{condition}", _THREE, every)
        assert found == wanted, f"{name}, {at}: {found:,} matches, and {wanted:,}"
        cells.append(rate(round(events), 1))
        series.setdefault(name, []).append((at, events))
    print(*cells, sep=" | ", flush=True)
    return cells


def windows(every: Sequence[Quote], widths: Sequence[int]) -> tuple[str, Series]:
    rows, series = [], Series()
    for width in widths:
        asked = {
            BROKER: f"{_TIES} WITHIN {width} s",
            "asked of each match": f"{_TIES} AND duration() <= {width}",
        }
        rows.append(compared(width, width, every, asked, series))
    return table(["window, s", "matches", "WITHIN", "asked of each match"], rows), series


def domains(count: int, sizes: Sequence[int]) -> tuple[str, Series]:
    rows, series = [], Series()
    asked = {
        BROKER: f"{_TIES} WITHIN {_WINDOW} s",
        "two inequalities": f"{_APART} WITHIN {_WINDOW} s",
    }
    for size in sizes:
        rows.append(compared(size, _WINDOW, numbered(count, size), asked, series))
    return table(["values", "matches", "equality", "two inequalities"], rows), series


# -- strategies ----------------------------------------------------------------------------------

_GROUP = (Block(90, 99, "s0"), Block(10, 89, "s1"), Block(0, 9, "s2"))
STRATEGIES = (
    ("any match", "SKIP TILL ANY MATCH"),
    ("longest", ""),
    ("next match", "SKIP TILL NEXT MATCH"),
    ("partition contiguity", "PARTITION CONTIGUITY"),
)


def expected(strategy: str, every: Sequence[Quote]) -> tuple[int, int]:
    """The number of matches, and of their beginnings: of each pair of a first and a last quote what
    lies between is counted."""
    of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, symbol, price in every:
        of[symbol].append((at, price))
    found, begins = 0, 0
    for own in of.values():
        for n, (begin, price) in enumerate(own):
            if price < 90:
                continue
            before = found
            between = 0
            for _, later in own[n + 1 : bisect_left(own, (begin + _WINDOW + 1, 0))]:
                if later < 10 and between:
                    found += 2**between - 1 if strategy == "any match" else 1
                elif 10 <= later < 90:
                    between += 1
                    continue
                if strategy == "partition contiguity":
                    break
            begins += found > before
    return found, begins


def strategies(every: Sequence[Quote]) -> str:
    rows = []
    for name, selection in STRATEGIES:
        cells = [name]
        for output, wanted in zip(("", "ONE PER START"), expected(name, every), strict=True):
            strategy = f"USING {selection} {output}" if selection or output else ""
            text = f"{{0}} FOLLOWED BY ({{1}})+ FOLLOWED BY {{2}} PARTITION BY ./s {strategy}"
            events, found = measured(f"{text} WITHIN {_WINDOW} s", _GROUP, every)
            if output:
                # What ends with the last quote may be followed by one of the same time.
                assert wanted - 2 <= found <= wanted, f"{name}: {found:,}, and {wanted:,}"
            else:
                assert found == wanted, f"{name}: {found:,} matches, and {wanted:,}"
            cells += [f"{found:,}", rate(round(events), 1)]
        rows.append(cells)
        print(*cells, sep=" | ", flush=True)
    return table(["selection", "matches", "all", "begin", "ONE PER START"], rows)


def main() -> None:
    quick = parser(__doc__).parse_args().quick
    every = numbered(2_000 if quick else 10_000, 20)
    text, of_windows = windows(every, (100, 1_000) if quick else (100, 300, 1_000, 3_000, 10_000))
    parts = ["Windows, 20 values of the common attribute:", text]
    parts += plotted(
        quick,
        "patterns_windows-width",
        "A sequence of three by its window",
        "window, s",
        of_windows,
    )
    text, of_domains = domains(len(every) // 2, (1, 10, 100) if quick else (1, 10, 100, 1_000))
    parts += ["Values of the common attribute, within 300 s:", text]
    parts += plotted(
        quick,
        "patterns_windows-values",
        "A sequence of three by its common attribute",
        "values",
        of_domains,
    )
    parts += ["A group between two blocks, of 60 symbols within 300 s:"]
    parts.append(strategies(numbered(len(every) // 2, 60)))
    finish("patterns_windows", parts, quick)


if __name__ == "__main__":
    main()
