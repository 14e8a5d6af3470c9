"""Fetching feeds while a pipeline runs, with messages on standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from broker.cli.feedbooks import moment, open_books, say_left_out
from broker.cli.shared import Failed, console, plural
from broker.service.books import BadFeed
from broker.service.polling import Polling as Poll
from broker.service.polling import Push
from feeds.poll import Poller, Wave
from feeds.spool import Spool

_NONE_LEFT = (
    "no feed is left to fetch: all are paused or gone (broker feeds resume, broker feeds add)"
)


def parse_push(callback: str, listen: str) -> Push:
    """The addresses for WebSub. Raises click.BadParameter unless they are http(s) and host:port."""
    try:
        return Push.parse(callback, listen)
    except ValueError as error:
        wrong_callback = str(error).startswith(repr(callback))
        hint = "--websub" if wrong_callback else "--websub-listen"
        raise click.BadParameter(str(error), param_hint=hint) from None


class Polling:
    """Fetches feeds into the spool of a state directory: at once, or in a thread of its own.

    These are the feeds named here and those of the state. `interval` is the time between two
    fetches of a feed, in microseconds; None: 15 minutes, or more. With `push`, feeds that name a
    WebSub hub are pushed by it; `proxies` are those of the environment, none by default. Feeds on
    private addresses are refused unless `allow_private`.
    """

    def __init__(
        self,
        directory: Path,
        feeds: Sequence[str],
        interval: int | None,
        push: Push | None = None,
        proxies: Mapping[str, str] | None = None,
        *,
        allow_private: bool = False,
    ) -> None:
        self._stack = ExitStack()
        books = self._stack.enter_context(open_books(directory, create=True))
        self.spool: Spool = books.spool
        try:
            for feed in feeds:
                try:
                    opml = books.name(feed, allow_private=allow_private)
                except BadFeed as error:
                    raise Failed(str(error)) from None
                if opml is not None:
                    count, left_out = opml
                    say_left_out(left_out)
                    console.print(f"{feed}: {plural(count, 'feed')}")
            try:
                poll = Poll(
                    books, interval, push, proxies, report=_report, none_left=_report_none_left
                )
            except ValueError as error:
                raise Failed(str(error)) from None
            self._poll = self._stack.enter_context(poll)
            if not self.spool.feeds():
                raise Failed("no feed to fetch: --feeds names none, and none was added")
        except BaseException:
            self._stack.close()
            raise

    @property
    def poller(self) -> Poller:
        return self._poll.poller

    def __enter__(self) -> Polling:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def once(self) -> None:
        """Fetch the feeds that are due. If none is, print when the next one will be."""
        if self._poll.wave().fetched:
            return
        upcoming = self.spool.schedule()
        if upcoming:
            soonest = f"the next one is at {moment(upcoming[0][0])} (see --interval)"
            console.print(f"no feed is due to be fetched: {soonest}")
        else:
            console.print(_NONE_LEFT)

    def start(self) -> None:
        self._poll.start()


def _report(wave: Wave, failure: BaseException | None) -> None:
    if failure is not None:
        console.print(f"fetching stopped: {failure}")
    for feed, problem in wave.problems:
        console.print(f"{feed}: {problem}")
    if wave.fetched:
        news = plural(wave.rows, "new item")
        console.print(f"fetched {plural(wave.fetched, 'feed')}: {news}")


def _report_none_left() -> None:
    console.print(_NONE_LEFT)
