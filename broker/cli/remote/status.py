"""`broker status`: the service at a glance."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker.cli.remote.client import Service, echo_json, with_service
from broker.cli.shared import plural
from broker.cli.tables import ago, moment, waiting
from broker.text.printable import visible
from broker.text.units import format_size, rough_duration

Line = tuple[str, str, str]
"""Of what, how it is ("good", "bad", or ""), and the words."""

_STYLES = {"good": "green", "bad": "bold red", "": ""}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="All that the service tells, as JSON.")
@with_service
def status(service: Service, as_json: bool) -> int:
    """Show how the service is doing; exit code 1 if it is not ready.

    \b
    broker status
    broker status --url http://127.0.0.1:8321 --json
    """
    told = service.get("/v1/status")
    if as_json:
        echo_json(told)
    else:
        _show(service.url, told)
    return 0 if told["ready"] else 1


def _show(url: str, told: dict[str, Any]) -> None:
    grid = Table.grid(padding=(0, 2))
    for what, how, words in _lines(url, told):
        grid.add_row(Text(what, style="bold"), Text(visible(words), style=_STYLES[how]))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
    with console.capture() as shown:
        console.print(grid)
    for line in shown.get().splitlines():
        click.echo(line.rstrip())


def _lines(url: str, told: dict[str, Any]) -> Iterator[Line]:
    uptime = rough_duration(told["uptime_seconds"])
    if told["ready"]:
        yield "service", "good", f"{told['state']} at {url} for {uptime}"
    else:
        yield "service", "bad", f"{told['state']} at {url} for {uptime}, not ready"
        for reason in told["reasons"]:
            yield "", "bad", reason["message"]
    yield from _documents(told)
    yield from _subscriptions(told)
    yield from _deliveries(told["deliveries"])
    yield from _feeds(told["feeds"])
    yield from _files(told)


def _documents(told: dict[str, Any]) -> Iterator[Line]:
    intake, pipeline = told["intake"], told["pipeline"]
    waits = f"{intake['backlog']:,} waiting"
    if intake["backlog"]:
        waits += f", the oldest for {rough_duration(intake['lag_seconds'])}"
    yield "documents", "", f"{intake['applied']:,} matched, {waits}"
    if pipeline["running"]:
        done = "no batch yet"
        if pipeline["last_batch"]:
            rate = f"{pipeline['documents_per_second']:,} documents a second of late"
            done = f"{rate}, last batch {ago(pipeline['last_batch'])}"
        yield "pipeline", "", f"{pipeline['kind']}, {done}"
    else:
        yield "pipeline", "bad", f"{pipeline['kind']}, stopped"
    if pipeline["failure"]:
        yield "", "bad", f"failing since {ago(pipeline['failing_since'])}: {pipeline['failure']}"
    engine = told["engine"]
    if engine is None:
        return
    kept = f"{engine['live_documents']:,} documents held"
    aside = (
        f"{engine['dead_letters']:,} kept aside" if engine["dead_letters"] else "none kept aside"
    )
    watermark = f", watermark {moment(engine['watermark'])}" if engine["watermark"] else ""
    yield "", "", f"{kept}, {aside}{watermark}"


def _subscriptions(told: dict[str, Any]) -> Iterator[Line]:
    engine = told["engine"]
    if engine is not None:
        active = engine["subscriptions"] - engine["paused"]
        templates = plural(engine["templates"], "template")
        shared = f"{templates}, {plural(engine['nfa_states'], 'NFA state')}"
        paused = f", {engine['paused']:,} paused or suspended" if engine["paused"] else ""
        yield "subscriptions", "", f"{active:,} active{paused}; {shared}"
    if told["suspended_count"]:
        more = told["suspended_count"] - len(told["suspended"])
        names = ", ".join(told["suspended"]) + (f" and {more:,} more" if more else "")
        yield "", "bad", f"suspended: {names}"


def _deliveries(told: dict[str, Any]) -> Iterator[Line]:
    left_out = f", {told['left_out']:,} left out by throttles" if told["left_out"] else ""
    yield "matches", "", f"{told['taken']:,} found, {told['matches']:,} held{left_out}"
    counts = [f"{c['channels']:,} {c['kind']} {c['status']}" for c in told["channels"]]
    off = any(c["status"] == "disabled" for c in told["channels"])
    delivered = sum(told["delivered"].values())
    readers = f"; {plural(told['readers'], 'reader')} connected" if told["readers"] else ""
    made = f"{', '.join(counts) or 'no channels'}; {delivered:,} delivered{readers}"
    yield "channels", "bad" if off else "", made
    for each in told["behind"]:
        oldest = f", the oldest found {ago(each['oldest'])}" if each["oldest"] else ""
        yield "", "", f"{each['channel']} has {waiting(each['backlog'])} to deliver{oldest}"
    if told["retries"]:
        yield "", "", f"{plural(told['retries'], 'delivery', 'deliveries')} will be tried again"
    if told["dead"]:
        given_up = plural(told["dead"], "delivery", "deliveries")
        yield "", "bad", f"{given_up} given up: broker deadletters list deliveries"


def _feeds(told: dict[str, Any]) -> Iterator[Line]:
    total = told["active"] + told["paused"] + told["gone"]
    if not total and not told["failure"]:
        return
    parts = [
        f"{told[name]:,} {name}" for name in ("active", "failing", "paused", "gone") if told[name]
    ]
    yield "feeds", "", ", ".join(parts) or "none"
    if told["failure"]:
        yield "", "bad", told["failure"]


def _files(told: dict[str, Any]) -> Iterator[Line]:
    sizes = ", ".join(f"{name} {format_size(size)}" for name, size in told["files"].items())
    low = any(reason["code"] == "disk-full" for reason in told["reasons"])
    yield "disk", "bad" if low else "", f"{sizes}; {format_size(told['disk_free'])} free"
    for task, reason in told["maintenance"].items():
        yield "", "bad", f"{task} fails: {reason}"
