"""Tables on standard output: aligned columns, cut to the width of a terminal and nowhere else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click

from broker.text.printable import visible
from broker.text.units import rough_duration


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a header. On a terminal the last column ends where the line does."""
    lines = [tuple(header), *(tuple(_cell(value) for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for cells in lines:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        line = "  ".join(padded).rstrip()
        if room is not None and len(line) > room:
            line = line[: room - 1] + "…"
        click.echo(line)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return visible(text)


def waiting(backlog: int) -> str:
    """How many matches a channel has to deliver; the service counts no further than 10,000."""
    return f"{backlog:,}" if backlog < 10_000 else "10,000 or more"


def moment(iso: str | None) -> str:
    """A time of the API to the second, "" for never."""
    if not iso:
        return ""
    return f"{iso.removesuffix('Z').partition('.')[0]}Z"


def ago(iso: str | None) -> str:
    """How long ago that was: "3 min ago"."""
    if not iso:
        return "never"
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{rough_duration((datetime.now(UTC) - then).total_seconds())} ago"
