"""Small plots of the benchmarks of patterns, if matplotlib is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def plotted(
    quick: bool, name: str, title: str, x: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> list[str]:
    """A plot of events per CPU second, as the parts of a page; none where it is only tried."""
    if quick:
        return []
    from bench.plots import lines

    return [lines(name, title, x, "events per CPU second", series)]
