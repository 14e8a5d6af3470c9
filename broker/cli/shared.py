"""Shared by the commands: options, messages, errors, and the delivery of matches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.model import COUNTED, MICROSECONDS, iso_time
from broker.text.printable import visible_lines
from broker.text.units import parse_duration, parse_size

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from broker.broker import Broker
    from broker.model import DeadLetter, Waiting

_SHOWN = 10
"""Queries that wait, of which there may be many, are shown up to so many."""

DEFAULT_STATE = "broker-state"
"""The default state directory of `broker serve`."""


class _Messages:
    """Standard error. Control characters are made visible, as messages quote ids, titles and
    responses from elsewhere. Plain lines need no rich, which takes a while to import."""

    @cached_property
    def screen(self) -> Console:
        """The console that shows lines of progress below the messages, and styles."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    def print(self, shown: RenderableType) -> None:
        if isinstance(shown, str):
            shown = visible_lines(shown)
        if isinstance(shown, str) and "screen" not in vars(self):
            print(shown, file=sys.stderr, flush=True)
        else:
            self.screen.print(shown, markup=False)


console = _Messages()


class Failed(RuntimeError):
    """The command cannot continue; the message has the reason and what to do."""

    code = 1
    ends_all = False


class Stopped(Failed):
    """A signal ended the command, cleanly, before its work was done."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


class Wrong(Failed):
    """An argument, query or setting of the command is wrong."""

    code = 2


def for_each(names: Iterable[str], do: Callable[[str], object]) -> None:
    """Call `do` for each name; a failure is reported, and the other names are still processed.

    A text that `do` returns is printed. Raises Failed at the end if some names failed, and at once
    an error with `ends_all`, after which all others would fail too.
    """
    wanted = list(dict.fromkeys(names))
    errors: list[Failed] = []
    for name in wanted:
        try:
            message = do(name)
        except Failed as error:
            if error.ends_all or len(wanted) == 1:
                raise
            text = str(error)
            console.print(text if text.startswith(name) else f"{name}: {text}")
            errors.append(error)
        else:
            if isinstance(message, str):
                console.print(message)
    if errors:
        failed = Failed(f"{len(errors):,} of {len(wanted):,} failed")
        failed.code = max(error.code for error in errors)
        raise failed


_LISTED = 5


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: 1 feed, 1,200 feeds."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


class StateType(click.Path):
    """A state directory, which need not exist yet. An empty text (a shell's unset variable) is
    refused, as it would mean the working directory."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("the name of a directory is missing", param, ctx)
        return super().convert(value, param, ctx)


class _Measure(click.ParamType[int]):
    """A whole number, written with a unit."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = _Measure("duration", parse_duration)
"""A duration as XSCL writes it, in microseconds."""

INTERVAL = _Measure("duration|auto", lambda text: 0 if text == "auto" else parse_duration(text))
"""A duration in microseconds, or "auto", which is 0."""

SIZE = _Measure("size", parse_size)
"""A size as 100 MB, in bytes."""


state_option = click.option(
    "--state",
    type=StateType(),
    help="Directory in which everything survives; stop or kill the command and go on with it.",
)
lateness_option = click.option(
    "--lateness",
    type=DURATION,
    default="7 days",
    show_default=True,
    help="How much older than the newest document one may arrive; older ones are kept aside.",
)
allow_private_option = click.option(
    "--allow-private",
    is_flag=True,
    help="Fetch feeds also from this machine and its network; else such addresses are refused.",
)
pipeline_option = click.option(
    "--pipeline",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="Where documents are parsed and matched: by Spark, on all cores or a cluster, or in this "
    "process, which needs no Java and begins at once.",
)
revisions_option = click.option(
    "--revisions",
    type=click.Choice(["replace", "flow"]),
    default="replace",
    show_default=True,
    help="What an edited document does: it takes the place of what is stored and fires nothing, or "
    "flows as a document of its own, which never matches other versions of itself.",
)


decide_option = click.option(
    "--decide",
    is_flag=True,
    help="At the end decide what event patterns wait for, as if enough time had passed without "
    "documents. For them, what a later run brings of that time is late.",
)


def report_suspensions(broker: Broker) -> None:
    """Print which subscriptions were suspended since the last call, and why."""
    for suspension in broker.engine.take_suspensions():
        console.print(suspended(suspension.id, suspension.reason))


def suspended(id: str, reason: str | None) -> str:
    """What there is to say about a suspended subscription."""
    return f"{id} is suspended, and finds nothing more: {reason}; with another text it begins anew"


def report_waiting(found: Sequence[Waiting], *, decides: bool) -> None:
    """Print what event patterns have not decided yet, and until when. `decides`: the command has an
    option that decides it."""
    for each in found[:_SHOWN]:
        console.print(f"waiting: {waiting_text(each)}")
    if len(found) > _SHOWN:
        console.print(f"  and {plural(len(found) - _SHOWN, 'more query', 'more queries')}")
    if decides and any(each.decides is not None for each in found):
        console.print("  with --decide they are decided at the end, as if that time had passed")


def waiting_text(each: Waiting) -> str:
    """What a query waits for, in words."""
    at = each.decides
    if at is None:
        until = "for ever: no lateness or WAIT ends it"
    else:
        # What is decided beyond a time is decided a microsecond later.
        word, at = ("beyond", at - 1) if at % MICROSECONDS == 1 else ("at", at)
        until = f"until a document or the clock is {word} {iso_time(at)}"
    number = f"{each.count:,} or more" if each.count >= COUNTED else f"{each.count:,}"
    noun = "possible match" if each.count == 1 else "possible matches"
    return f"{number} {noun} of {each.query}, {until}"


def report_dead_letters(letters: Sequence[DeadLetter], state: Path | None) -> None:
    """Print the number of dead letters, and the first few with their reasons."""
    if not letters:
        return
    console.print(f"kept aside: {plural(len(letters), 'document')}")
    for letter in letters[:5]:
        console.print(f"  {letter.place}: {letter.reason}")
    if len(letters) > 5:
        console.print(f"  and {len(letters) - 5:,} more")
    if state is not None:
        where = state / "broker.duckdb"
        console.print(f"  all are in the table dead_letters of {where}")
