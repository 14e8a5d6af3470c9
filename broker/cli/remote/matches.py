"""`broker matches` and `broker tail`: stored matches, and new ones as they are found."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from broker.cli.match_formats import HEADERS, MATCH_FORMATS, format_option_of
from broker.cli.remote.answers import line_of, lines_of
from broker.cli.remote.client import Refused, Service, Unreachable, part
from broker.cli.remote.options import patience_option, with_service
from broker.cli.shared import Failed, console, plural
from broker.model import DocumentRef, Match, nested_tuples, to_microseconds

if TYPE_CHECKING:
    import httpx

_PAGE = 1_000
_LONGEST_PAUSE = 30.0
"""The longest pause, in seconds, between attempts to reach a service."""

Writer = Callable[[dict[str, Any]], None]

id_argument = click.argument("id", required=False)
format_option = format_option_of(
    "text",
    "For people, result documents, JSON lines as the API has them, CSV with a header, or a line of "
    "a table each.",
)


# -- matches ---------------------------------------------------------------------------------


@click.command()
@id_argument
@click.option("--after", type=click.IntRange(0), help="Only matches numbered above it.")
@click.option("--limit", type=click.IntRange(1), help="How many at most.")
@click.option(
    "--channel",
    metavar="NAME",
    help="What a pull channel has not acknowledged yet, instead of those of subscription ID.",
)
@click.option("--ack", is_flag=True, help="Acknowledge, with --channel, what was written.")
@format_option
@patience_option("30 s")
@with_service
def matches(
    service: Service,
    id: str | None,
    after: int | None,
    limit: int | None,
    channel: str | None,
    ack: bool,
    form: str,
) -> None:
    """Show the matches that the service holds: of subscription ID, or all.

    They are numbered; the number of the last is said at the end, for --after of the next time.

    \b
    broker matches same-page
    broker matches same-page --after 1200 --format jsonl
    broker matches --channel desk --ack --format jsonl
    """
    if channel is not None and id is not None:
        raise click.UsageError("a channel has its own subscription: give --channel or ID")
    if ack and channel is None:
        raise click.UsageError("--ack needs --channel")
    write = writer(form)
    count = 0
    cursor = after
    for page, cursor in _pages(service, id, channel, after, limit, ack):
        for match in page:
            write(match)
        count += len(page)
        if ack and page:
            service.post(f"/v1/channels/{part(str(channel))}/ack", {"n": cursor})
    going_on = "" if channel else f"; what comes later: --after {cursor or 0}"
    console.print(f"{plural(count, 'match', 'matches')}{going_on}")


def _pages(
    service: Service,
    id: str | None,
    channel: str | None,
    after: int | None,
    limit: int | None,
    acknowledged: bool,
) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Pages of matches, each with the number of its last one, until there are no more."""
    remaining = limit
    first = True
    while remaining is None or remaining > 0:
        params = {
            "subscription": id,
            "channel": channel,
            "after": after,
            "limit": _PAGE if remaining is None else min(remaining, _PAGE),
        }
        try:
            response = service.ask("GET", "/v1/matches", params=params)
        except Refused as error:
            # The channel of a dropped subscription is removed when its last match is acknowledged.
            if acknowledged and not first and error.status == 404:
                return
            raise
        page = lines_of(response)
        first = False
        try:
            after = int(response.headers["next-cursor"])
        except (KeyError, ValueError):
            raise Failed(f"{response.url} does not say Next-Cursor, as a broker does") from None
        yield page, after
        if not page:
            return
        if remaining is not None:
            remaining -= len(page)


# -- tail ------------------------------------------------------------------------------------


@click.command()
@id_argument
@click.option(
    "--after",
    type=click.IntRange(0),
    help="Begin behind the match of this number, 0 for all that are held; else with the next "
    "found.",
)
@format_option
@patience_option("30 s")
@with_service
def tail(service: Service, id: str | None, after: int | None, form: str) -> None:
    """Show matches as they are found: of subscription ID, or all.

    If the service is restarted it is waited for, and no match is missed. Ctrl-C ends it.

    \b
    broker tail
    broker tail same-page --format jsonl
    """
    write = writer(form)
    last = after
    pause = 0.0
    reached = False
    while True:
        try:
            for number, data in _events(service, id, last):
                last = number
                if not reached:
                    console.print(f"following {id or 'all subscriptions'}; stop with Ctrl-C")
                elif pause:
                    console.print("connected again")
                reached, pause = True, 0.0
                if data is not None:
                    write(data)
            reason = "the service is stopping"
        except Failed as error:
            temporary = isinstance(error, Unreachable) or (
                isinstance(error, Refused) and error.kind in ("draining", "starting")
            )
            reason = str(error)
            # A service that has been reached once is retried without a time limit.
            if not temporary or (not reached and not service.patience.lasts(reason)):
                raise
            if not reached:
                continue
        if not pause:
            console.print(f"{reason}; trying again")
        pause = min(_LONGEST_PAUSE, pause * 2 or 0.5)
        time.sleep(pause)


def _events(
    service: Service, id: str | None, last: int | None
) -> Iterator[tuple[int | None, dict[str, Any] | None]]:
    """The number and the data of each event. The first has no data: the stream is connected."""
    headers = {"Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = str(last)
    with service.stream("/v1/matches/stream", headers, subscription=id) as response:
        yield last, None
        data: list[str] = []
        for line in _lines(response):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id" and value.isdigit():
                last = int(value)
            elif name == "data":
                data.append(value)
            elif not line:
                yield last, line_of(response, "\n".join(data)) if data else None
                data = []


def _lines(response: httpx.Response) -> Iterator[str]:
    """Lines that end with a line feed only, as matches may contain other Unicode line breaks."""
    rest = b""
    for chunk in response.iter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")


# -- writing ---------------------------------------------------------------------------------


def writer(form: str) -> Writer:
    """A function that prints a match in a format; headers are printed at once."""
    format_match = MATCH_FORMATS[form]
    if form in HEADERS:
        click.echo(HEADERS[form])

    def write(match: dict[str, Any]) -> None:
        if form == "jsonl":
            text = json.dumps(match, ensure_ascii=False)
        else:
            text = format_match(as_match(match))
        if match.get("left_out") and form == "text":
            text += f"    ({plural(match['left_out'], 'match', 'matches')} left out before it)\n"
        click.echo(text)

    return write


def as_match(reply: dict[str, Any]) -> Match:
    """A match of the API as one of the library."""
    try:
        return Match(
            id=reply["id"],
            query=reply["query"],
            stream=reply["stream"],
            start_us=_time(reply["start"]),
            end_us=_time(reply["end"]),
            documents=tuple(
                DocumentRef(
                    d["id"],
                    d["stream"],
                    _time(d["timestamp"]),
                    *(d.get(name) for name in ("title", "link", "feed")),
                )
                for d in reply["documents"]
            ),
            values=reply["values"],
            nodes=(),
            result=reply["result"],
            joined=tuple(map(tuple, reply.get("joined", ()))),
            blocks=nested_tuples(reply.get("blocks")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Failed(
            f"the service tells a match in another form than this command reads: {error!r}"
        ) from None


def _time(iso: str) -> int:
    try:
        return to_microseconds(datetime.fromisoformat(iso))
    except ValueError:
        return to_microseconds(float(iso))
