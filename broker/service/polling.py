"""Fetching the feeds of a state into its spool, in a thread of its own.

In: the feeds of the spool, including those added meanwhile. Out: rows in the spool, and reports of
errors. Feeds on this machine or its network are fetched if the user has allowed it for that feed; a
redirect of a public server to such an address is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from broker.service.books import BadFeed, Books, must_be_fetchable
from broker.service.core.background import Background
from feeds.feed_events import event_rows
from feeds.fetch import Fetcher, local_path
from feeds.poll import INTERVAL, Poller, Wave
from feeds.spool import Spool
from feeds.websub import Subscriber

_PATIENCE = 2.0
"""Seconds after which slow hosts are left to the next round."""

_LOOK = 3.0
"""Seconds until feeds are noticed that another process has added or resumed meanwhile."""

_WAIT = 15.0
"""Seconds until fetching is tried again after it failed altogether."""

_JOIN = 60.0
"""Seconds that requests in flight may take to end."""

Report = Callable[[Wave, BaseException | None], None]
"""Called with the result of a round, and the error if it failed."""


@dataclass(frozen=True, slots=True)
class Push:
    """The addresses for WebSub: `callback`, which hubs call, and where this program listens."""

    callback: str
    host: str
    port: int

    @classmethod
    def parse(cls, callback: str, listen: str) -> Push:
        """Raises ValueError, whose message begins with the wrong address."""
        try:
            must_be_fetchable(callback)
            valid = local_path(callback) is None
        except BadFeed:
            valid = False
        if not valid:
            raise ValueError(
                f"{callback!r} is not an address that hubs can call, as https://host/path"
            )
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"{listen!r} is not HOST:PORT")
        return cls(callback, host.strip("[]"), int(port))

    def subscriber(self, spool: Spool, fetcher: Fetcher) -> Subscriber:
        """Start to listen for hubs. Raises ValueError if the address cannot be bound."""
        try:
            return Subscriber(
                spool, fetcher, callback=self.callback, host=self.host, port=self.port
            )
        except OSError as error:
            where = f"{self.host}:{self.port}"
            raise ValueError(f"--websub-listen {where}: {error.strerror or error}") from None


class Polling(Background, AbstractContextManager["Polling"]):
    """Fetches the feeds in `books` when they are due.

    `interval` is the time between two fetches of a feed, in microseconds; None: 15 minutes, and
    longer for feeds that bring little or ask for more. With `push`, feeds that name a WebSub hub
    are pushed by it; `proxies` are those of the environment, none by default. `report` is called
    with the result of each round, `none_left` when no feed is left to fetch; while `ready` returns
    False, none is fetched. Raises ValueError for a proxy or an address that cannot be used.
    """

    def __init__(
        self,
        books: Books,
        interval: int | None,
        push: Push | None = None,
        proxies: Mapping[str, str] | None = None,
        *,
        report: Report,
        none_left: Callable[[], None] = lambda: None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__("feeds")
        self._report = report
        self._ready = ready
        self._none_left = none_left
        self._stack = ExitStack()
        self.spool = books.spool
        try:
            fetcher = Fetcher(allow_private=True, proxies=proxies)
        except ValueError as error:
            raise ValueError(f"http_proxy or https_proxy in the environment: {error}") from None
        self._stack.enter_context(fetcher)
        try:
            subscriber = None
            if push is not None:
                subscriber = self._stack.enter_context(push.subscriber(self.spool, fetcher))
        except BaseException:
            self._stack.close()
            raise
        self.poller = Poller(
            self.spool,
            fetcher,
            interval=INTERVAL if interval is None else max(1.0, interval / 1_000_000),
            exact=interval is not None,
            subscriber=subscriber,
            observe=event_rows,
            terms=books.preferences.terms,
        )
        self.failure: str | None = None

    def __exit__(self, *_: object) -> None:
        self.stop(_JOIN)
        self._stack.close()

    def wave(self, patience: float | None = None) -> Wave:
        """Fetch the feeds that are due; hosts slower than `patience` seconds are left for later."""
        wave = self.poller.fetch_wave(patience)
        self._report(wave, None)
        return wave

    def _loop(self) -> None:
        none_left = False
        while not self._stop.is_set():
            if not self._ready():
                self._stop.wait(_LOOK)
                continue
            try:
                self.wave(_PATIENCE)
                wait = self.poller.seconds_until_due()
                if wait is None and not none_left:
                    self._none_left()
                none_left = wait is None
                self.failure = None
                pause = _LOOK if wait is None else min(wait, _LOOK)
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}".splitlines()[0]
                self._report(Wave(), error)
                pause = _WAIT
            self._stop.wait(pause)
