"""Line charts for the results page, as reproducible SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl

from bench.measure import BROKER, RESULTS

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 9})

from matplotlib import pyplot as plt  # noqa: E402  # the backend comes first
from matplotlib.figure import Figure  # noqa: E402

_STYLES = ("s--", "^--", "v--", "d--", "x--")
Points = Sequence[tuple[float, float]]


def lines(
    name: str, title: str, x: str, y: str, series: Mapping[str, Points], log_x: bool = True
) -> str:
    """Draws a line for each system, y on a logarithmic axis; returns Markdown that shows it.

    `series` are the points by the name of the system, the broker's own as a solid line.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for i, (label, points) in enumerate(series.items()):
        ours = label == BROKER
        style = "o-" if ours else _STYLES[i % len(_STYLES)]
        axes.plot(*zip(*points, strict=True), style, label=label, linewidth=2 if ours else 1)
    axes.set(title=title, xlabel=x, ylabel=y, yscale="log", xscale="log" if log_x else "linear")
    if not log_x:
        axes.set_xticks(sorted({point[0] for points in series.values() for point in points}))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return _saved(figure, name, title)


def over_items(
    name: str, title: str, millions: Sequence[float], series: Mapping[str, Sequence[float]]
) -> str:
    """Draws one panel for each series over millions of items, from 0; returns Markdown that shows
    it."""
    figure, panels = plt.subplots(
        len(series), 1, figsize=(6.4, 1.5 * len(series)), sharex=True, layout="constrained"
    )
    for axes, (label, values) in zip(panels, series.items(), strict=True):
        axes.plot(millions, values, "o-", markersize=3)
        axes.set_title(label, fontsize=8, loc="left")
        axes.set_ylim(0, max(values) * 1.15)
        axes.grid(alpha=0.3)
    panels[-1].set_xlabel("millions of items")
    return _saved(figure, name, title)


def _saved(figure: Figure, name: str, title: str) -> str:
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
    return f"![{title}](results/{name}.svg)"
