"""What several commands of `broker feeds` take."""

from __future__ import annotations

import click

from broker.cli.shared import (
    DURATION,
    StateType,
    console,
)
from broker.model import UNBOUNDED
from feeds.identity import ALL

state_option = click.option(
    "--state",
    required=True,
    type=StateType(),
    envvar="BROKER_STATE",
    show_envvar=True,
    help="The state directory of the broker whose feeds these are.",
)
folder_option = click.option("--folder", default="", help="Folder to put them in, as a/b.")
since_option = click.option(
    "--since",
    type=DURATION,
    metavar="DURATION",
    help="What a feed already shows when it is first fetched is no news: it is remembered, and not "
    "published. Its items of this last while are news all the same; INFINITY: all of them.",
)


def say_what_is_news(new: object, since: int | None) -> None:
    """Where feeds were added, say why nothing comes of them at first, unless that was asked for."""
    if new and since is None:
        console.print("what feeds show now is no news, what comes later is (for more: --since)")


def begin_of(duration: int | None, now: int) -> int:
    """From when on items are news, for the value of `since_option`."""
    if duration is None:
        return now
    return ALL if duration >= UNBOUNDED else now - duration
