"""What several commands of `broker feeds` take."""

from __future__ import annotations

import os
from pathlib import Path

import click

from broker.cli.shared import DEFAULT_STATE, DURATION, StateType, console
from broker.model import UNBOUNDED
from feeds.identity import ALL


def _state_here(ctx: click.Context, param: click.Parameter, state: Path | None) -> Path | None:
    if state is not None or ctx.resilient_parsing:
        return state
    # It is not made in a directory that happens to be the working one.
    if not os.path.isdir(DEFAULT_STATE):
        raise click.MissingParameter(ctx=ctx, param=param)
    return Path(DEFAULT_STATE)


state_option = click.option(
    "--state",
    type=StateType(),
    envvar="BROKER_STATE",
    show_envvar=True,
    callback=_state_here,
    help="The state directory of the broker whose feeds these are; without it "
    f"{DEFAULT_STATE}, where there is one.",
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
