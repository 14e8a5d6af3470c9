"""`broker feeds`: which feeds are watched, and how they are."""

from __future__ import annotations

import click

from broker.cli.feeds.exchange import export, import_feeds
from broker.cli.feeds.looking import check, discover
from broker.cli.feeds.watched import add, edit, list_feeds, pause, refresh, remove, resume


@click.group()
def feeds() -> None:
    """Add, remove and look after the feeds that a broker watches."""


for command in (
    *(add, remove, edit, refresh, pause, resume, list_feeds),
    *(import_feeds, export, check, discover),
):
    feeds.add_command(command)
