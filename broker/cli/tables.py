"""Lists on standard output: tables, whose columns are aligned and which are cut to the width of a
terminal and nowhere else; CSV; lines of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

import click

from broker.text.columns import csv_line, csv_lines
from broker.text.printable import visible
from broker.text.units import rough_duration

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "table", "jsonl", "csv"]),
    default="text",
    show_default=True,
    help="A table for people (text and table are one), a line of JSON each, or CSV with a header.",
)

_AT_ONCE = 1_000
"""Lines that are printed at once: each time all is flushed."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a header. On a terminal the last column ends where the line does."""
    lines = [tuple(header), *(tuple([_cell(value) for value in row]) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    row = "  ".join(f"{{:{width}}}" for width in widths)
    formatted = (row.format(*cells).rstrip() for cells in lines)
    while chunk := list(islice(formatted, _AT_ONCE)):
        click.echo("\n".join(chunk if room is None else [_cut(line, room) for line in chunk]))


def csv_table(columns: Sequence[str], objects: Iterable[Mapping[str, object]]) -> None:
    """Print fields of JSON objects as CSV, with a header row."""
    click.echo(csv_line(columns))
    rows = ([fields.get(column) for column in columns] for fields in objects)
    while chunk := list(islice(rows, _AT_ONCE)):
        click.echo(csv_lines(chunk))


def echo_json(value: object) -> None:
    """One line of JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


def fitted(line: str) -> str:
    """A line of a table, cut to the width of the terminal if there is one."""
    return _cut(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else line


def _cut(line: str, room: int) -> str:
    return line if len(line) <= room else line[: room - 1] + "…"


def _cell(value: object) -> str:
    match value:
        case str():
            return visible(value)
        case None:
            return ""
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case _:
            return visible(str(value))


def waiting(backlog: int) -> str:
    """The backlog of a channel, in matches; the service counts no further than 10,000."""
    return f"{backlog:,}" if backlog < 10_000 else "10,000 or more"


def moment(iso: str | None) -> str:
    """A time from the API, to the second, "" for never."""
    if not iso:
        return ""
    return f"{iso.removesuffix('Z').partition('.')[0]}Z"


def ago(iso: str | None) -> str:
    """A time from the API relative to now: "3 min ago"."""
    if not iso:
        return "never"
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{rough_duration((datetime.now(UTC) - then).total_seconds())} ago"
