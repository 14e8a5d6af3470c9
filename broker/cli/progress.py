"""Long work as a person follows it: a line on a terminal that stays up to date, and elsewhere (a
log, a pipe) a line every so often. Both go to standard error.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import UnsupportedOperation
from typing import TYPE_CHECKING

import click

from broker.cli.shared import console, plural
from broker.text.units import rough_duration

if TYPE_CHECKING:
    # Most commands are done before there is anything to show.
    from rich.progress import ProgressColumn, Task

_QUIET = "quiet"
_TOGETHER = 250
EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


class Work:
    """What has been done so far, of how much.

    `noun` is what is counted. With `total` the share that is done, the rate and the time left are
    shown. The total is of the same things; or it is of `parts` (bytes of files, say, where
    documents are counted), and `advance` is told which part of it is done.
    """

    def __init__(
        self,
        noun: str,
        *,
        many: str | None = None,
        total: int | None = None,
        parts: bool = False,
        note: str = "",
        every: float = EVERY,
    ) -> None:
        from rich.progress import Progress

        self._noun, self._many = noun, many
        self._every = every
        self._total = total
        self._count = 0
        self.parts = parts
        self._note = note
        self._quiet = quiet()
        self._live = interactive() and not self._quiet
        self._bar = Progress(
            *_columns(total is not None),
            console=console.screen,
            transient=True,
            # Results go to standard output, which may be a file while messages go to a terminal.
            redirect_stdout=False,
            disable=not self._live,
        )
        self._task = self._bar.add_task(f"waiting for {many or noun + 's'}", total=total, rate="")
        self._last_line = time.monotonic()

    def __enter__(self) -> Work:
        try:
            self._bar.start()
        except BaseException:  # Ctrl-C: the line that is there already goes, the cursor comes back
            self._bar.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, count: int = 0, *, part: int | None = None, note: str | None = None) -> None:
        """Count so many more; `note` is shown behind them, as it is until another one comes."""
        self._count += count
        if note is not None:
            self._note = note
        done = count if part is None else part
        self._bar.update(self._task, description=self._described(), advance=done, rate=self._rate())
        if self._live or self._quiet:
            return
        if time.monotonic() - self._last_line >= self._every:
            self._last_line = time.monotonic()
            console.print(self._line())

    def expect(self, total: int) -> None:
        """How much there is, where that is known only later."""
        if self._total is None:
            self._total = total
            self._bar.columns = tuple(_columns(True))
            self._bar.update(self._task, total=total)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While results are written: the line makes way for them where both go to a terminal."""
        if not (self._live and sys.stdout.isatty()):
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def _described(self) -> str:
        counted = plural(self._count, self._noun, self._many)
        if self._total is not None and not self.parts:
            counted = f"{self._count:,} of {plural(self._total, self._noun, self._many)}"
        return f"{counted}, {self._note}" if self._note else counted

    def _rate(self) -> str:
        task = self._bar.tasks[0]
        if self._total is None or not task.speed or not task.completed:
            return ""
        rate = task.speed * self._count / task.completed
        return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"

    def _line(self) -> str:
        """What the bar shows, in words."""
        said = [self._described()]
        task: Task = self._bar.tasks[0]
        if self._total:
            said.append(f"{task.percentage:.0f}%")
            said += [rate] if (rate := self._rate()) else []
            if task.time_remaining is not None:
                said.append(f"{rough_duration(task.time_remaining)} left")
        return ", ".join(said)


class Steps:
    """Work that is done in several steps, one after the other, each to all: a line for the step
    that is under way."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._step = ""
        self._work: Work | None = None
        self._shown = ExitStack()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()

    def __call__(self, step: str, count: int, total: int) -> None:
        """Count so many more of the total for which the step is done."""
        if self._work is None or step != self._step:
            self._shown.close()
            self._step = step
            self._work = self._shown.enter_context(Work(self._noun, total=total, note=step))
        self._work.advance(count)


class Counted:
    """Counts what comes one by one, very fast, and shows it now and then."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._count = self._part = self._at = 0

    def one(self) -> None:
        """Count one."""
        self._count += 1
        if self._count >= _TOGETHER:
            self.done()

    def upto(self, at: int) -> None:
        """Count one, with which so much of the total is done."""
        self._part, self._at = self._part + at - self._at, at
        self.one()

    def done(self) -> None:
        """Show what has been counted."""
        self._work.advance(self._count, part=self._part if self._work.parts else None)
        self._count = self._part = 0


@contextmanager
def stage(text: str, *, seen_only: bool = False, every: float = EVERY) -> Iterator[None]:
    """What is going on within the block, where nothing can be counted: a line on a terminal, which
    goes at the end, and elsewhere one that stays, unless it is for terminals only. Where it takes
    long another line comes every so often."""
    if quiet():
        yield
        return
    if not interactive():
        if not seen_only:
            console.print(text)
        with _reminding(text, every):
            yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    line = Progress(*columns, console=console.screen, transient=True, redirect_stdout=False)
    line.add_task(text, total=None)
    try:
        line.start()
        yield
    finally:
        line.stop()


@contextmanager
def _reminding(text: str, every: float) -> Iterator[None]:
    """Say every so often that it still goes on."""
    done, began = threading.Event(), time.monotonic()

    def remind() -> None:
        while not done.wait(every):
            so_far = rough_duration(time.monotonic() - began)
            console.print(f"{text}, for {so_far} so far")

    reminder = threading.Thread(target=remind, name="progress", daemon=True)
    reminder.start()
    try:
        yield
    finally:
        done.set()
        reminder.join()


def quiet() -> bool:
    """Whether the command was asked to say nothing of how far it is."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_QUIET))


def _be_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_QUIET] = value


quiet_option = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Do not show how far it is; results and errors come all the same.",
)


def interactive() -> bool:
    """Whether a line can be kept up to date: on a terminal that can move its cursor, and to which
    no other program of a pipe writes what it gets from here."""
    try:
        kind = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, UnsupportedOperation):
        kind = 0
    piped = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    return console.screen.is_terminal and not console.screen.is_dumb_terminal and not piped


def _columns(known: bool) -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # Where a terminal is narrow, it is the words that are cut.
    words = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
    )
    if not known:
        return [SpinnerColumn(), words, TimeElapsedColumn()]
    return [
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        words,
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
    ]
