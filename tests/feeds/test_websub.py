"""The WebSub subscriber with a real hub, a program of its own (`tests.feeds.hub`)."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from feeds.fetch import Fetcher
from feeds.hubs import Subscription
from feeds.poll import Poller
from feeds.sample_server import FeedServer
from feeds.schedule import PUSHED_WAIT
from feeds.spool import Spool
from feeds.websub import Subscriber, signed
from tests.feeds.data import ROOT, rss
from tests.feeds.odd_server import OddServer, response
from tests.waiting import PATIENCE, until


class HubProgram(AbstractContextManager["HubProgram"]):
    """The hub, and what it says it did."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "tests.feeds.hub", *options]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def did(self, what: str) -> str:
        """Wait for the next thing that the hub does, which is `what`; with which topic."""
        done, topic = self._line().split()
        assert done == what
        return topic

    def publish(self, topic: str) -> None:
        form = urlencode({"hub.mode": "publish", "hub.url": topic}).encode()
        urlopen(self.address, form, timeout=PATIENCE).close()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class World:
    """A feed on a server, a hub, and the reader: poller, spool and subscriber."""

    def __init__(self, stack: ExitStack, path: Path, *hub_options: str) -> None:
        self.path = path
        (path / "site").mkdir()
        self.hub = stack.enter_context(HubProgram(*hub_options))
        self.server = stack.enter_context(FeedServer(path / "site"))
        self.url = self.server.url("news.rss")
        self.spool = stack.enter_context(Spool(path / "spool"))
        self.fetcher = stack.enter_context(Fetcher(allow_private=True))
        self.subscriber = Subscriber(self.spool, self.fetcher)
        self.poller = Poller(
            self.spool, self.fetcher, [self.url], subscriber=self.subscriber, chance=lambda: 0.0
        )

    def write(self, *items: str, hub: str | None = None) -> None:
        atom = 'xmlns:a="http://www.w3.org/2005/Atom"'
        links = f'<a:link {atom} rel="hub" href="{hub or self.hub.address}"/>'
        links += f'<a:link {atom} rel="self" href="{self.url}"/>'
        entries = (f"<guid isPermaLink='false'>{name}</guid>" for name in items)
        body = rss(*entries, channel=f"<title>News</title>{links}")
        (self.path / "site" / "news.rss").write_bytes(body)

    def ids(self) -> list[str]:
        return [row.id for row in self.spool.read(0, 10**6)]

    def subscription(self) -> Subscription:
        (found,) = self.spool.hubs()
        return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
def test_from_discovery_to_a_push(stack: ExitStack, tmp_path: Path, algorithm: str) -> None:
    world = World(stack, tmp_path, "--algorithm", algorithm)
    stack.enter_context(world.subscriber)
    world.write("1")
    assert world.poller.fetch_wave().rows == 1
    assert world.hub.did("verified") == world.url
    assert world.subscriber.live() == {world.url}

    world.write("3", "2", "1")
    requests = world.server.requests
    world.hub.publish(world.url)
    world.hub.did("sent")
    assert world.ids() == ["1", "2", "3"]
    assert world.server.requests == requests + 1  # the hub's own, none of ours

    # What was pushed is not there twice when it is fetched, nor when it is pushed again.
    world.spool.set_status(world.url, "active")
    assert world.poller.fetch_wave().rows == 0
    world.hub.publish(world.url)
    world.hub.did("sent")
    assert world.ids() == ["1", "2", "3"]
    state = world.spool.state(world.url)
    assert state.last_success is not None
    # Polling goes on, at longer intervals.
    assert world.poller.seconds_until_due() == pytest.approx(PUSHED_WAIT, abs=60)


def test_a_lease_is_renewed_before_it_ends(stack: ExitStack, tmp_path: Path) -> None:
    world = World(stack, tmp_path, "--lease", "2")
    stack.enter_context(world.subscriber)
    world.write("1")
    world.poller.fetch_wave()
    world.hub.did("verified")
    first = world.subscription().expires
    world.hub.did("renewed")
    until(lambda: world.subscription().expires > first)
    assert world.subscriber.live() == {world.url}


def test_a_hub_that_refuses_leaves_the_feed_to_polling(stack: ExitStack, tmp_path: Path) -> None:
    world = World(stack, tmp_path, "--refuse")
    stack.enter_context(world.subscriber)
    world.write("1")
    world.poller.fetch_wave()
    world.hub.did("denied")
    until(lambda: world.subscription().state == "denied")
    assert world.subscription().problem == "hub: denied: not here"
    assert world.subscriber.live() == frozenset()
    world.spool.set_status(world.url, "active")
    world.poller.fetch_wave()
    wait = world.poller.seconds_until_due()
    assert wait is not None
    assert wait < PUSHED_WAIT / 2


def test_a_hub_that_cannot_be_reached_is_tried_again_later(
    stack: ExitStack, tmp_path: Path
) -> None:
    world = World(stack, tmp_path)
    with OddServer({"/hub": response("503 Busy", Retry_After="3000")}) as hub:
        world.write("1", hub=hub.url("/hub"))
        world.poller.fetch_wave()
        assert world.subscriber.renew_due() == 1
    failed = world.subscription()
    assert (failed.state, failed.errors, failed.problem) == (
        "wanted",
        1,
        "hub: the server is busy (503)",
    )
    assert failed.next_try - time.time() * 1e6 == pytest.approx(3e9, rel=0.1)
    assert world.subscriber.renew_due() == 0
    assert "secret" not in repr(failed).replace("secret_", "")
    assert failed.secret not in repr(failed)
    # It answers a request, but never verifies: a failure too.
    with OddServer({"/hub": response("202 Accepted")}) as hub:
        world.spool.save_hub(replace(failed, hub=hub.url("/hub"), next_try=0))
        for errors in (1, 2):
            assert world.subscriber.renew_due() == 1
            assert (world.subscription().state, world.subscription().errors) == ("asked", errors)
            world.spool.save_hub(replace(world.subscription(), next_try=0))
        ((path, headers), _) = hub.requests
    assert (path, headers["content-type"]) == ("/hub", "application/x-www-form-urlencoded")


def test_a_hub_that_verifies_and_then_fails_is_believed(stack: ExitStack, tmp_path: Path) -> None:
    world = World(stack, tmp_path)

    def answer(send: Callable[[bytes], object]) -> None:
        asked = world.subscription()
        question = {"hub.mode": "subscribe", "hub.topic": asked.topic, "hub.challenge": "x"}
        assert world.subscriber.verify(asked.token, question) == b"x"
        send(response("500 Oops"))

    with OddServer({"/hub": answer}) as hub:
        world.write("1", hub=hub.url("/hub"))
        world.poller.fetch_wave()
        world.subscriber.renew_due()
    assert (world.subscription().state, world.subscription().errors) == ("active", 0)
    assert world.subscriber.live() == {world.url}


def test_the_hub_of_a_public_feed_is_on_no_private_address(
    stack: ExitStack, tmp_path: Path
) -> None:
    world = World(stack, tmp_path)
    with OddServer({"/hub": response("202 Accepted")}) as hub:
        world.write("1", hub=hub.url("/hub"))
        world.poller.fetch_wave()
        world.spool.save_hub(replace(world.subscription(), private=False))
        world.subscriber.renew_due()
        assert hub.requests == []
    assert "is a private address" in (world.subscription().problem or "")


def test_a_feed_that_changes_its_hub_or_drops_it(stack: ExitStack, tmp_path: Path) -> None:
    world = World(stack, tmp_path)
    stack.enter_context(world.subscriber)
    world.write("1")
    world.poller.fetch_wave()
    world.hub.did("verified")
    old = world.subscription()
    world.write("2", "1", hub="http://127.0.0.1:9/other")
    world.spool.set_status(world.url, "active")
    world.poller.fetch_wave()
    new = world.subscription()
    assert (new.hub, new.token != old.token) == ("http://127.0.0.1:9/other", True)
    world.hub.publish(world.url)  # the old hub learns that nobody listens any more
    world.hub.did("failed-410")
    (tmp_path / "site" / "news.rss").write_bytes(rss("<title>without a hub</title>"))
    world.spool.set_status(world.url, "active")
    world.poller.fetch_wave()
    assert world.spool.hubs() == []


def test_signatures() -> None:
    for name in ("sha1", "sha256", "sha384", "sha512"):
        digest = hmac.new(b"key", b"body", getattr(hashlib, name)).hexdigest()
        assert signed("key", b"body", f"{name}={digest}")
        assert signed("key", b"body", f" {name.upper()}={digest.upper()} ")
        assert not signed("key", b"Body", f"{name}={digest}")
        assert not signed("kex", b"body", f"{name}={digest}")
        assert not signed("key", b"body", f"{name}={digest[:-1]}é")
    assert not signed("key", b"body", hmac.new(b"key", b"body", "sha256").hexdigest())
