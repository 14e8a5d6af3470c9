"""The WebSub subscriber with a real hub, a program of its own (`tests.feeds.hub`)."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit
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


# -- callers that are no hub -----------------------------------------------------------------


@pytest.fixture
def pushed(stack: ExitStack, tmp_path: Path) -> World:
    """A world with a verified subscription."""
    world = World(stack, tmp_path)
    stack.enter_context(world.subscriber)
    world.write("1")
    world.poller.fetch_wave()
    world.hub.did("verified")
    return world


def call(
    world: World, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    host = urlsplit(world.subscriber._callback).netloc
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body if method == "POST" else None, named)
    answer = connection.getresponse()
    result = answer.status, answer.read(), answer.headers
    connection.close()
    return result


def sign(world: World, body: bytes) -> str:
    return "sha256=" + hmac.new(world.subscription().secret.encode(), body, "sha256").hexdigest()


PUSH = rss("<guid isPermaLink='false'>pushed</guid>")


def test_only_what_is_signed_is_taken(pushed: World) -> None:
    path = "/" + pushed.subscription().token
    good = sign(pushed, PUSH)
    for bad in (None, "", "sha256=", "sha256=00", "md5=" + good[7:], good[:-1], "=" + good[7:]):
        headers = {} if bad is None else {"X_Hub_Signature": bad}
        # The caller is not told, or it could go on guessing.
        assert call(pushed, "POST", path, PUSH, **headers)[0] == 202
    assert call(pushed, "POST", path, PUSH + b" ", X_Hub_Signature=good)[0] == 202
    assert pushed.ids() == ["1"]
    assert pushed.subscription().problem == "hub: a push without its signature was ignored"
    assert call(pushed, "POST", path, PUSH, X_Hub_Signature=good)[0] == 202
    assert pushed.ids() == ["1", "pushed"]


def test_a_push_says_nothing_of_the_items_that_it_does_not_hold(pushed: World) -> None:
    before = pushed.spool.state(pushed.url)
    path = "/" + pushed.subscription().token
    call(pushed, "POST", path, PUSH, X_Hub_Signature=sign(pushed, PUSH))
    after = pushed.spool.state(pushed.url)
    assert after.last_success is not None
    assert before.last_success is not None
    assert after.last_success > before.last_success
    # The validators of the last fetch, and what it found, stay as they are.
    assert after.items_per_day is not None
    assert replace(
        after, last_success=before.last_success, items_per_day=before.items_per_day
    ) == replace(before, title=after.title)
    packed = gzip.compress(PUSH.replace(b"pushed", b"packed"))
    signature = sign(pushed, packed)
    call(pushed, "POST", path, packed, X_Hub_Signature=signature, Content_Encoding="gzip")
    assert pushed.ids() == ["1", "pushed", "packed"]


def test_pushes_that_are_no_feed(pushed: World) -> None:
    path = "/" + pushed.subscription().token
    page = b"<html><body>no feed</body></html>"
    assert call(pushed, "POST", path, page, X_Hub_Signature=sign(pushed, page))[0] == 202
    bomb = gzip.compress(bytes(50_000_000))
    headers = {"X_Hub_Signature": sign(pushed, bomb), "Content_Encoding": "gzip"}
    assert call(pushed, "POST", path, bomb, **headers)[0] == 202
    assert "could not be unpacked" in (pushed.subscription().problem or "")
    rows = list(pushed.spool.read(1, 9))
    assert [row.error for row in rows] == ["an HTML page, not a feed"]
    assert call(pushed, "POST", path, PUSH, X_Hub_Signature=sign(pushed, PUSH))[0] == 202
    assert "pushed" in pushed.ids()


def test_whom_the_callback_answers(pushed: World) -> None:
    token = pushed.subscription().token
    ask = {
        "hub.mode": "subscribe",
        "hub.topic": pushed.url,
        "hub.challenge": "<b>x</b>\r\nX-Evil: 1",
    }

    def verify(path: str, **other: str) -> int:
        return call(pushed, "GET", f"{path}?{urlencode(ask | other)}")[0]

    before = pushed.subscription()
    pushed.spool.save_hub(replace(before, state="denied"))
    assert verify("/" + token) == 404
    pushed.spool.save_hub(replace(before, state="asked"))
    assert verify("/" + token[:-1]) == 404
    assert verify("/") == 404
    assert verify("/" + token, **{"hub.topic": "http://a.example/"}) == 404
    assert verify("/" + token, **{"hub.mode": "unsubscribe"}) == 404
    assert verify("/" + token, **{"hub.challenge": ""}) == 404
    assert pushed.subscription().expires == before.expires
    status, body, headers = call(pushed, "GET", f"/{token}?{urlencode(ask)}")
    assert (status, body) == (200, ask["hub.challenge"].encode())
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "X-Evil" not in headers


def test_what_the_callback_does_not_read(pushed: World) -> None:
    path = "/" + pushed.subscription().token
    assert call(pushed, "POST", "/guess", PUSH)[0] == 410
    assert call(pushed, "POST", path, b"", Content_Length="999999999999")[0] == 413
    assert call(pushed, "POST", path, b"", Content_Length="-5")[0] == 411
    assert call(pushed, "PUT", path)[0] == 501
    pushed.spool.save_hub(replace(pushed.subscription(), expires=1))
    assert call(pushed, "POST", path, PUSH, X_Hub_Signature=sign(pushed, PUSH))[0] == 410
    assert pushed.ids() == ["1"]


def test_a_paused_feed_takes_no_push(pushed: World) -> None:
    pushed.spool.set_status(pushed.url, "paused")
    path = "/" + pushed.subscription().token
    assert call(pushed, "POST", path, PUSH, X_Hub_Signature=sign(pushed, PUSH))[0] == 202
    assert pushed.ids() == ["1"]
    pushed.spool.remove(pushed.url)
    assert call(pushed, "POST", path, PUSH)[0] == 410


def test_callers_that_say_nothing_shut_nobody_out_for_good(
    pushed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = urlsplit(pushed.subscriber._callback).netloc.split(":")
    idle = [http.client.HTTPConnection(host, int(port), timeout=PATIENCE) for _ in range(40)]
    for connection in idle:
        connection.connect()
    for connection in idle:
        connection.close()
    path = "/" + pushed.subscription().token
    signature = sign(pushed, PUSH)

    def push() -> bool:
        try:
            return call(pushed, "POST", path, PUSH, X_Hub_Signature=signature)[0] == 202
        except OSError:
            return False

    until(push)
    assert pushed.ids() == ["1", "pushed"]


def test_pushes_and_fetches_at_once_store_each_item_once(pushed: World) -> None:
    path = "/" + pushed.subscription().token
    names = [str(number) for number in range(2, 40)]

    def push(name: str) -> None:
        body = rss(f"<guid isPermaLink='false'>{name}</guid>")
        assert call(pushed, "POST", path, body, X_Hub_Signature=sign(pushed, body))[0] == 202

    pushed.write(*reversed(names), "1")
    pushed.spool.set_status(pushed.url, "active")
    threads = [threading.Thread(target=push, args=(name,)) for name in names[:8] * 2]
    for thread in threads:
        thread.start()
    pushed.poller.fetch_wave()
    for thread in threads:
        thread.join()
    assert sorted(pushed.ids(), key=int) == ["1", *names]


def test_signatures() -> None:
    for name in ("sha1", "sha256", "sha384", "sha512"):
        digest = hmac.new(b"key", b"body", getattr(hashlib, name)).hexdigest()
        assert signed("key", b"body", f"{name}={digest}")
        assert signed("key", b"body", f" {name.upper()}={digest.upper()} ")
        assert not signed("key", b"Body", f"{name}={digest}")
        assert not signed("kex", b"body", f"{name}={digest}")
        assert not signed("key", b"body", f"{name}={digest[:-1]}é")
    assert not signed("key", b"body", hmac.new(b"key", b"body", "sha256").hexdigest())
