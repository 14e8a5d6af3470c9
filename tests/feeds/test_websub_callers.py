"""The callback of WebSub: what it takes of hubs, and of callers that are none."""

from __future__ import annotations

import gzip
import hmac
import http.client
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.feeds.data import rss
from tests.feeds.test_websub import World
from tests.waiting import PATIENCE, until


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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
