"""`broker list`: the subscriptions of a service."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from broker.cli.remote.answers import lines_as_objects, lines_in
from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import console, plural
from broker.cli.tables import csv_table, format_option, moment, table

if TYPE_CHECKING:
    import httpx

_REASONS = 50
"""How many reasons are shown below a table."""


@click.command("list")
@click.argument("prefix", default="")
@click.option("--status", type=click.Choice(["active", "paused", "suspended"]), help="Only those.")
@format_option
@with_service
def list_command(service: Service, prefix: str, status: str | None, form: str) -> None:
    """List the subscriptions whose ids begin with PREFIX; without one, all.

    \b
    broker list
    broker list news- --status suspended
    broker list --format jsonl
    """
    with _listed(service, prefix, status) as response:
        if form == "jsonl":
            for lines in lines_in(response):
                click.echo("\n".join(lines))
            return
        found = (each for lines in lines_in(response) for each in lines_as_objects(response, lines))
        if form == "csv":
            csv_table(("id", "status", "reason", "since", "first_doc", "gaps", "text"), found)
            return
        _show(prefix, status, found)


def _listed(
    service: Service, prefix: str, status: str | None
) -> AbstractContextManager[httpx.Response]:
    """All of them in one answer, a line of JSON each."""
    accept = {"Accept": "application/x-ndjson"}
    return service.stream("/v1/subscriptions", accept, prefix=prefix, status=status)


def _show(prefix: str, status: str | None, found: Iterable[dict[str, Any]]) -> None:
    rows = []
    reasons = []
    for each in found:
        since = moment(each["since"])
        text = " ".join(each["text"].split()).removeprefix(f"{each['id']}: ")
        rows.append((each["id"], each["status"], since, each["first_doc"], len(each["gaps"]), text))
        if each["reason"] not in (None, each["status"]):
            reasons.append(f"{each['id']}: {each['status']}: {each['reason']}")
    if rows:
        table(("ID", "STATUS", "SINCE", "FROM DOCUMENT", "GAPS", "TEXT"), rows)
    else:
        those = " like that" if prefix or status else "; broker subscribe adds some"
        console.print(f"no subscriptions{those}")
    for reason in reasons[:_REASONS]:
        console.print(reason)
    if len(reasons) > _REASONS:
        more = plural(len(reasons) - _REASONS, "subscription")
        console.print(f"and {more} more that see no documents; their reasons: --format jsonl")
