"""The formats in which commands print matches: those of channels, and rows under a header."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.cli.tables import fitted
from broker.model import Match
from broker.text.columns import MATCH_CSV_HEADER, MATCH_TABLE_HEADER, csv_match, table_match
from broker.text.formats import FORMATS

MATCH_FORMATS: Mapping[str, Callable[[Match], str]] = {
    **FORMATS,
    "csv": csv_match,
    "table": lambda match: fitted(table_match(match)),
}
HEADERS: Mapping[str, str] = {"csv": MATCH_CSV_HEADER, "table": MATCH_TABLE_HEADER}
"""What stands above the matches of a form."""
