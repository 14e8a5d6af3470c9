"""`broker events`: lists suspensions, disabled channels and abandoned deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import console
from broker.cli.tables import csv_table, echo_json, format_option, moment, table

_PAGE = 1_000


@click.command()
@click.option("--after", type=click.IntRange(0), default=0, help="Only those of a higher number.")
@format_option
@with_service
def events(service: Service, after: int, form: str) -> None:
    """List suspensions, disabled channels and other events for owners, the oldest first.

    Subscriptions that were suspended, channels that were disabled or have recovered, deliveries
    that were given up. The newest ten thousand are kept.

    \b
    broker events
    broker events --after 12 --format jsonl
    """
    entries = _events(service, after)
    if form == "jsonl":
        for event in entries:
            echo_json(event)
        return
    if form == "csv":
        csv_table(("number", "at", "kind", "channel", "subscription", "text"), entries)
        return
    rows = [
        (str(e["number"]), moment(e["at"]), e["kind"], e["channel"] or e["subscription"], e["text"])
        for e in entries
    ]
    if rows:
        table(("NUMBER", "TIME", "KIND", "OF", "WHAT"), rows)
    else:
        console.print("no events")


def _events(service: Service, after: int) -> Iterator[dict[str, Any]]:
    while page := service.get_list("/v1/events", after=after, limit=_PAGE):
        after = page[-1]["number"]
        yield from page
