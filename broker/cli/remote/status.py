"""`broker status`: a summary of the service and of its problems."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import plural
from broker.cli.tables import ago, echo_json, moment, waiting
from broker.text.printable import visible
from broker.text.units import format_size, rough_duration

Line = tuple[str, str, str]
"""A label, a state ("good", "bad", or "") that decides the colour, and the text."""

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
    report = service.get("/v1/status")
    if as_json:
        echo_json(report)
    else:
        _show(service.url, report)
    return 0 if report["ready"] else 1


def _show(url: str, report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for label, state, text in _lines(url, report):
        grid.add_row(Text(label, style="bold"), Text(visible(text), style=_STYLES[state]))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
    with console.capture() as captured:
        console.print(grid)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _lines(url: str, report: dict[str, Any]) -> Iterator[Line]:
    uptime = rough_duration(report["uptime_seconds"])
    if report["ready"]:
        yield "service", "good", f"{report['state']} at {url} for {uptime}"
    else:
        yield "service", "bad", f"{report['state']} at {url} for {uptime}, not ready"
        for reason in report["reasons"]:
            yield "", "bad", reason["message"]
    yield from _documents(report)
    yield from _subscriptions(report)
    yield from _deliveries(report["deliveries"])
    yield from _feeds(report["feeds"])
    yield from _files(report)


def _documents(report: dict[str, Any]) -> Iterator[Line]:
    intake, pipeline = report["intake"], report["pipeline"]
    backlog = f"{intake['backlog']:,} waiting"
    if intake["backlog"]:
        backlog += f", the oldest for {rough_duration(intake['lag_seconds'])}"
    yield "documents", "", f"{intake['applied']:,} matched, {backlog}"
    if pipeline["running"]:
        activity = "no batch yet"
        if pipeline["last_batch"]:
            rate = f"{pipeline['documents_per_second']:,} documents a second of late"
            activity = f"{rate}, last batch {ago(pipeline['last_batch'])}"
        yield "pipeline", "", f"{pipeline['kind']}, {activity}"
    else:
        yield "pipeline", "bad", f"{pipeline['kind']}, stopped"
    if pipeline["failure"]:
        yield "", "bad", f"failing since {ago(pipeline['failing_since'])}: {pipeline['failure']}"
    engine = report["engine"]
    if engine is None:
        return
    live = f"{engine['live_documents']:,} documents held"
    dead = f"{engine['dead_letters']:,}" if engine["dead_letters"] else "none"
    watermark = f", watermark {moment(engine['watermark'])}" if engine["watermark"] else ""
    yield "", "", f"{live}, {dead} kept aside{watermark}"


def _subscriptions(report: dict[str, Any]) -> Iterator[Line]:
    engine = report["engine"]
    if engine is not None:
        active = engine["subscriptions"] - engine["paused"]
        templates = plural(engine["templates"], "template")
        shared = f"{templates}, {plural(engine['nfa_states'], 'NFA state')}"
        paused = f", {engine['paused']:,} paused or suspended" if engine["paused"] else ""
        yield "subscriptions", "", f"{active:,} active{paused}; {shared}"
        yield from _waiting(engine)
    if report["suspended_count"]:
        more = report["suspended_count"] - len(report["suspended"])
        names = ", ".join(report["suspended"]) + (f" and {more:,} more" if more else "")
        yield "", "bad", f"suspended: {names}"


def _waiting(engine: dict[str, Any]) -> Iterator[Line]:
    """The event patterns that wait. A service of an older version tells of none."""
    label = "waiting"
    for each in engine.get("waiting", ()):
        decides = each["decides"]
        until = f"the first decided at {moment(decides)}" if decides else "never decided"
        noun = "possible match" if each["count"] == 1 else "possible matches"
        yield label, "", f"{each['query']}: {each['count']:,} {noun}, {until}"
        label = ""
    more = engine.get("waiting_count", 0) - len(engine.get("waiting", ()))
    if more > 0:
        yield label, "", f"and {plural(more, 'more event pattern')}"


def _deliveries(state: dict[str, Any]) -> Iterator[Line]:
    left_out = f", {state['left_out']:,} left out by throttles" if state["left_out"] else ""
    yield "matches", "", f"{state['taken']:,} found, {state['matches']:,} held{left_out}"
    counts = [f"{c['channels']:,} {c['kind']} {c['status']}" for c in state["channels"]]
    disabled = any(c["status"] == "disabled" for c in state["channels"])
    delivered = sum(state["delivered"].values())
    readers = f"; {plural(state['readers'], 'reader')} connected" if state["readers"] else ""
    channels = f"{', '.join(counts) or 'no channels'}; {delivered:,} delivered{readers}"
    yield "channels", "bad" if disabled else "", channels
    for lagging in state["behind"]:
        oldest = f", the oldest found {ago(lagging['oldest'])}" if lagging["oldest"] else ""
        yield "", "", f"{lagging['channel']} has {waiting(lagging['backlog'])} to deliver{oldest}"
    if state["retries"]:
        yield "", "", f"{plural(state['retries'], 'delivery', 'deliveries')} will be tried again"
    if state["dead"]:
        given_up = plural(state["dead"], "delivery", "deliveries")
        yield "", "bad", f"{given_up} given up: broker deadletters list deliveries"


def _feeds(feeds: dict[str, Any]) -> Iterator[Line]:
    total = feeds["active"] + feeds["paused"] + feeds["gone"]
    if not total and not feeds["failure"]:
        return
    parts = [
        f"{feeds[name]:,} {name}" for name in ("active", "failing", "paused", "gone") if feeds[name]
    ]
    yield "feeds", "", ", ".join(parts) or "none"
    if feeds["failure"]:
        yield "", "bad", feeds["failure"]


def _files(report: dict[str, Any]) -> Iterator[Line]:
    sizes = ", ".join(f"{name} {format_size(size)}" for name, size in report["files"].items())
    low = any(reason["code"] == "disk-full" for reason in report["reasons"])
    yield "disk", "bad" if low else "", f"{sizes}; {format_size(report['disk_free'])} free"
    for task, reason in report["maintenance"].items():
        yield "", "bad", f"{task} fails: {reason}"
