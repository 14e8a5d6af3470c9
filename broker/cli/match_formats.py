"""The formats in which commands print matches: those of channels, and rows under a header."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from broker.cli.tables import fitted
from broker.model import Match
from broker.text.columns import MATCH_CSV_HEADER, MATCH_TABLE_HEADER, csv_match, table_match
from broker.text.formats import FORMATS

F = TypeVar("F", bound=Callable[..., Any])

MATCH_FORMATS: Mapping[str, Callable[[Match], str]] = {
    **FORMATS,
    "csv": csv_match,
    "table": lambda match: fitted(table_match(match)),
}
HEADERS: Mapping[str, str] = {"csv": MATCH_CSV_HEADER, "table": MATCH_TABLE_HEADER}
"""What stands above the matches of a form."""


def format_option_of(default: str, help: str) -> Callable[[F], F]:
    """The option --format of a command that prints matches; its parameter is `form`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(list(MATCH_FORMATS)),
        default=default,
        show_default=True,
        help=help,
    )
