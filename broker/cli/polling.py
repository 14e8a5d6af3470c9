"""Fetching feeds while the pipeline runs, into the spool that it reads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from broker.cli.feedbooks import (
    Books,
    address_of,
    listed_in,
    moment,
    must_be_fetchable,
    open_books,
)
from broker.cli.shared import Failed, console, plural
from feeds.events import event_rows
from feeds.fetch import Fetcher, local_path
from feeds.identity import ALL
from feeds.opml import OpmlError
from feeds.poll import Poller
from feeds.spool import Spool
from feeds.websub import Subscriber

_PATIENCE = 2.0
"""Seconds after which slow hosts are left to the next round."""

_LOOK = 3.0
"""Seconds until feeds are noticed that `broker feeds` has added or resumed meanwhile."""

_NONE_LEFT = (
    "no feed is left to fetch: all are paused or gone (broker feeds resume, broker feeds add)"
)


@dataclass(frozen=True, slots=True)
class Push:
    """Where hubs reach this program: the address that they call, and where it listens for them."""

    callback: str
    host: str
    port: int

    @classmethod
    def parse(cls, callback: str, listen: str) -> Push:
        """Raises click.BadParameter for what is no http(s) address, or no host:port."""
        try:
            must_be_fetchable(callback)
            well = local_path(callback) is None
        except Failed:
            well = False
        if not well:
            raise click.BadParameter(
                f"{callback!r} is not an address that hubs can call, as https://host/path",
                param_hint="--websub",
            )
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--websub-listen")
        return cls(callback, host.strip("[]"), int(port))

    def subscriber(self, spool: Spool, fetcher: Fetcher) -> Subscriber:
        try:
            return Subscriber(
                spool, fetcher, callback=self.callback, host=self.host, port=self.port
            )
        except OSError as error:
            where = f"{self.host}:{self.port}"
            raise Failed(f"--websub-listen {where}: {error.strerror or error}") from None


class Polling:
    """Fetches feeds into the spool of a state directory: at once, or in a thread of its own.

    Goes over the feeds named here and those that the state has already. What the user typed may be
    on this machine or its network, and is fetched from there; what a list names, and where a public
    server redirects to, is not. `interval` is the shortest time between two fetches of a feed, in
    microseconds. With `push`, feeds that name a WebSub hub are pushed by it; `proxies` are those of
    the environment, none by default.
    """

    def __init__(
        self,
        directory: Path,
        feeds: Sequence[str],
        interval: int,
        push: Push | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._stack = ExitStack()
        books = self._stack.enter_context(open_books(directory, create=True))
        self.spool: Spool = books.spool
        try:
            for feed in feeds:
                _add(books, feed)
            try:
                fetcher = Fetcher(allow_private=True, proxies=proxies)
            except ValueError as error:
                raise Failed(f"http_proxy or https_proxy in the environment: {error}") from None
            self.fetcher = self._stack.enter_context(fetcher)
            subscriber = None
            if push is not None:
                subscriber = self._stack.enter_context(push.subscriber(self.spool, fetcher))
            self.poller = Poller(
                self.spool,
                self.fetcher,
                interval=max(1.0, interval / 1_000_000),
                subscriber=subscriber,
                observe=event_rows,
                terms=books.listings.terms,
            )
            if not self.spool.feeds():
                raise Failed("no feed to fetch: --feeds names none, and none was added")
        except BaseException:
            self._stack.close()
            raise
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="feeds", daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> Polling:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        if self.thread.ident is not None:
            self.thread.join(timeout=60)
        self._stack.close()

    def wave(self, patience: float | None = None) -> int:
        """Fetch what is due, and say what went wrong; after `patience` seconds, wait for no more.

        How many feeds were fetched.
        """
        wave = self.poller.wave(patience)
        for feed, problem in wave.problems:
            console.print(f"{feed}: {problem}", markup=False)
        if wave.fetched:
            news = plural(wave.rows, "new item")
            console.print(f"fetched {plural(wave.fetched, 'feed')}: {news}")
        return wave.fetched

    def once(self) -> None:
        """Fetch what is due; where nothing is, say so and when something will be."""
        if self.wave():
            return
        upcoming = self.spool.schedule()
        if upcoming:
            soonest = f"the next one is at {moment(upcoming[0][0])} (see --interval)"
            console.print(f"no feed is due to be fetched: {soonest}")
        else:
            console.print(_NONE_LEFT)

    def start(self) -> None:
        self.thread.start()

    def _loop(self) -> None:
        try:
            said = False
            while not self.stop.is_set():
                self.wave(_PATIENCE)
                wait = self.poller.wait()
                if wait is None and not said:
                    console.print(_NONE_LEFT)
                said = wait is None
                self.stop.wait(_LOOK if wait is None else min(wait, _LOOK))
        except BaseException as error:
            self.failure = error
            console.print(f"fetching stopped: {error}", markup=False)


def _add(books: Books, feed: str) -> None:
    """A feed, or the feeds of an OPML file; all that they show is news, since they were named here."""
    must_be_fetchable(feed)
    path = local_path(feed)
    data = b""
    if path is not None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Failed(f"--feeds {feed}: {error.strerror}") from None
    if b"<opml" not in data[:4096].lower():
        books.typed([address_of(feed)], ALL)
        return
    assert path is not None
    try:
        wanted, left_out = listed_in(data, path.absolute().as_uri(), ALL)
    except OpmlError as error:
        raise Failed(f"--feeds {feed}: {error}") from None
    books.add(wanted)
    for each in left_out:
        console.print(f"left out: {each}", markup=False)
    console.print(f"{feed}: {plural(len(wanted), 'feed')}", markup=False)
