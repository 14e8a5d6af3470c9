"""`broker deadletters`: both kinds of dead letters.

They are documents that could not be processed, and deliveries that a receiver did not accept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import Failed, console, for_each, plural
from broker.cli.tables import csv_table, echo_json, format_option, moment, table

_PAGE = 1_000
_PATHS = {"documents": "/v1/dead-letters", "deliveries": "/v1/deliveries/dead"}
_NOUNS = {"documents": ("document", "documents"), "deliveries": ("delivery", "deliveries")}

kind_argument = click.argument("kind", type=click.Choice(list(_PATHS)))
numbers_argument = click.argument("numbers", metavar="NUMBER...", nargs=-1, type=click.IntRange(1))
all_option = click.option("--all", "every", is_flag=True, help="All of that kind.")
channel_option = click.option("--channel", metavar="NAME", help="Deliveries of this channel only.")


@click.group()
def deadletters() -> None:
    """List, resend and drop dead letters.

    documents are those that were not well-formed, came too late, or at which the engine failed.
    deliveries are matches that a receiver did not take, however often it was tried.
    """


_CSV = {
    "deliveries": (
        "number",
        "at",
        "channel",
        "subscription",
        "n",
        "match_id",
        "attempts",
        "reason",
    ),
    "documents": ("number", "at", "source", "id", "place", "timestamp", "streams", "reason"),
}


@deadletters.command("list")
@click.argument("kind", type=click.Choice(list(_PATHS)), required=False)
@channel_option
@format_option
@with_service
def list_letters(service: Service, kind: str | None, channel: str | None, form: str) -> None:
    """List dead letters with their reasons, of one KIND or of both.

    \b
    broker deadletters list
    broker deadletters list deliveries --channel desk
    broker deadletters list documents --format jsonl
    """
    if channel is not None and kind != "deliveries":
        raise click.UsageError("--channel goes with deliveries")
    for each in [kind] if kind else list(_PATHS):
        letters = _letters(service, each, channel)
        if form == "jsonl":
            for letter in letters:
                echo_json({"kind": each, **letter} if kind is None else letter)
            continue
        if form == "csv":
            if kind is None:
                raise click.UsageError("one table is of one kind: deliveries or documents")
            csv_table(_CSV[each], letters)
            continue
        rows = [_row(each, letter) for letter in letters]
        if not rows:
            console.print(f"no {each} were given up")
        elif each == "documents":
            table(("NUMBER", "TIME", "DOCUMENT", "REASON"), rows)
        else:
            table(("NUMBER", "TIME", "CHANNEL", "SUBSCRIPTION", "MATCH", "REASON"), rows)


def _row(kind: str, letter: dict[str, Any]) -> tuple[object, ...]:
    if kind == "documents":
        subject = [letter["place"]]
    else:
        subject = [letter["channel"], letter["subscription"], str(letter["n"])]
    # Numbers without separators, as users have to type them.
    return str(letter["number"]), moment(letter["at"]), *subject, letter["reason"]


def _letters(service: Service, kind: str, channel: str | None = None) -> Iterator[dict[str, Any]]:
    after = 0
    while page := service.get_list(_PATHS[kind], after=after, limit=_PAGE):
        after = page[-1]["number"]
        yield from (letter for letter in page if channel in (None, letter.get("channel")))


@deadletters.command()
@kind_argument
@numbers_argument
@all_option
@channel_option
@with_service
def resend(
    service: Service, kind: str, numbers: tuple[int, ...], every: bool, channel: str | None
) -> None:
    """Publish documents once more, or try deliveries once more; by number, or all.

    \b
    broker deadletters resend deliveries --channel desk
    broker deadletters resend deliveries 3 4
    broker deadletters resend documents 17
    """
    _check_selection(kind, numbers, every, channel)
    if kind == "deliveries":
        body = {"numbers": list(numbers) or None, "channel": channel}
        count = object_of(service.post(f"{_PATHS[kind]}/resend", body))["count"]
    else:
        selected = numbers or [letter["number"] for letter in _letters(service, kind)]
        count = 0

        def one(number: str) -> None:
            nonlocal count
            count += object_of(service.post(f"{_PATHS['documents']}/{number}/resubmit"))["accepted"]

        try:
            for_each(map(str, selected), one)
        except Failed:
            if count:
                console.print(f"sent again: {plural(count, 'document')}")
            raise
    _require_some(kind, numbers, count)
    console.print(f"sent again: {plural(count, *_NOUNS[kind])}")


@deadletters.command()
@kind_argument
@numbers_argument
@all_option
@channel_option
@with_service
def drop(
    service: Service, kind: str, numbers: tuple[int, ...], every: bool, channel: str | None
) -> None:
    """Forget documents or deliveries that were given up; by number, or all.

    \b
    broker deadletters drop deliveries --channel desk
    broker deadletters drop documents --all
    """
    _check_selection(kind, numbers, every, channel)
    params = {"numbers": ",".join(map(str, numbers)) or None, "channel": channel}
    count = object_of(service.ask("DELETE", _PATHS[kind], params=params))["count"]
    _require_some(kind, numbers, count)
    console.print(f"dropped: {plural(count, *_NOUNS[kind])}")


def _require_some(kind: str, numbers: tuple[int, ...], count: int) -> None:
    """Raises Failed if none of the numbers was found."""
    if numbers and not count:
        shown = ", ".join(map(str, numbers))
        raise Failed(f"no {kind} were given up under {shown}: broker deadletters list {kind}")


def _check_selection(kind: str, numbers: tuple[int, ...], every: bool, channel: str | None) -> None:
    """Raises click.UsageError unless the options select letters in exactly one way."""
    if channel is not None and kind != "deliveries":
        raise click.UsageError("--channel goes with deliveries")
    if bool(numbers) + every + (channel is not None) != 1:
        ways = "numbers, --channel or --all" if kind == "deliveries" else "numbers or --all"
        raise click.UsageError(f"say which: {ways}")
