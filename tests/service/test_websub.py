"""WebSub under `broker serve`: what a hub pushes is matched at once, and without it what nobody
signed.

The hub is a program of its own (`tests.feeds.hub`), the feed a file on a server that names it.
"""

from __future__ import annotations

import hmac
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from feeds.sample_server import FeedServer
from tests.feeds.data import rss
from tests.feeds.test_websub import HubProgram
from tests.ports import reserved_port
from tests.service.process import Process
from tests.waiting import PATIENCE

QUERY = "news: S//note[./about->a] JOIN {a = t, 1 day} S//item[./title->t]"


class Pushed(NamedTuple):
    """The subscription at the hub, as the service keeps it."""

    token: str
    secret: str
    problem: str | None


class World:
    """A hub, a feed that names it, and where the service listens. It polls once, at its start."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        (path / "site").mkdir()
        self._file = path / "site" / "news.rss"
        self.state = path / "state"
        self.hub = stack.enter_context(HubProgram())
        self.server = stack.enter_context(FeedServer(path / "site"))
        self.url = self.server.url("news.rss")
        port = reserved_port()
        self.callback = f"http://127.0.0.1:{port}/hook"
        self.config = path / "broker.toml"
        self.config.write_text(
            f"[feeds]\nallow_private = true\nurls = {json.dumps([self.url])}\nwebsub = "
            f"{json.dumps(self.callback)}\n"
            f'websub_listen = "127.0.0.1:{port}"\n'
        )

    def serve(self) -> Process:
        return Process(self.state, "--config", self.config)

    def body(self, *titles: str) -> bytes:
        atom = 'xmlns:a="http://www.w3.org/2005/Atom"'
        links = f'<a:link {atom} rel="hub" href="{self.hub.address}"/>'
        links += f'<a:link {atom} rel="self" href="{self.url}"/>'
        items = (f"<title>{t}</title><guid isPermaLink='false'>{t}</guid>" for t in titles)
        return rss(*items, channel=f"<title>News</title>{links}")

    def write(self, *titles: str) -> None:
        self._file.write_bytes(self.body(*titles))

    def pushed(self) -> Pushed:
        spool = f"file:{self.state / 'spool.sqlite'}?mode=ro"
        with closing(sqlite3.connect(spool, uri=True)) as db:
            (found,) = db.execute("SELECT token, secret, problem FROM hub").fetchall()
        return Pushed(*found)

    def push(self, body: bytes, signature: str | None) -> int:
        """Somebody calls who knows the address; the status of the answer."""
        headers = {} if signature is None else {"X-Hub-Signature": signature}
        address = f"{self.callback}/{self.pushed().token}"
        return httpx.post(address, content=body, headers=headers, timeout=PATIENCE).status_code

    def signature(self, body: bytes) -> str:
        return "sha256=" + hmac.new(self.pushed().secret.encode(), body, "sha256").hexdigest()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path)


def titles(broker: Process) -> list[str]:
    """Of the items that were matched."""
    return [match["values"]["t"][0] for match in broker.matches()]


def ready(world: World, broker: Process, *wanted: str) -> None:
    """The hub pushes the feed to it, and these titles will be matched."""
    broker.subscribe(QUERY)
    for title in wanted:
        broker.publish(f"<note><about>{title}</about></note>", Document_Id=f"note {title}")
    assert world.hub.did("verified") == world.url


def test_what_a_hub_pushes_is_matched_without_a_poll(world: World) -> None:
    world.write("old")
    with world.serve() as broker:
        ready(world, broker, "first", "second")
        for n, title in enumerate(("first", "second")):
            requests = world.server.requests
            world.write(title, "old")
            world.hub.publish(world.url)
            assert world.hub.did("sent") == world.url
            (match,) = broker.matches(after=n, wait=30)
            assert match["values"]["t"] == [title]
            assert [d["stream"] for d in match["documents"]] == ["S", "News"]
            assert world.server.requests == requests + 1, "the hub's own, and none of ours"
        # It is no news a second time.
        last = broker.status()["intake"]["last"]
        world.hub.publish(world.url)
        world.hub.did("sent")
        assert broker.status()["intake"]["last"] == last
        assert broker.terminate() == 0


def test_what_is_not_signed_as_it_should_be_is_refused(world: World) -> None:
    """The caller is not told, or it could go on guessing; nothing of it is stored, and the feed's
    subscription tells the owner."""
    world.write("old")
    with world.serve() as broker:
        ready(world, broker, "forged", "true")
        forged, true = world.body("forged"), world.body("true")
        last = broker.status()["intake"]["last"]
        good = world.signature(true)
        assert world.pushed().problem is None
        for signature in (None, "", "sha256=", "sha256=00", "md5=" + good[7:], good):
            assert world.push(forged, signature) == 202
        assert world.push(true, good[:-1]) == 202
        assert broker.status()["intake"]["last"] == last
        assert world.pushed().problem == "hub: a push without its signature was ignored"
        guessed = httpx.post(f"{world.callback}/guessed", content=true, timeout=PATIENCE)
        assert guessed.status_code == 410
        # It has done no harm to what is genuine, which comes behind it.
        assert world.push(true, good) == 202
        broker.matches(wait=30)
        assert titles(broker) == ["true"]


def test_a_push_that_was_taken_survives(world: World) -> None:
    """Once the hub has its answer the item is on disk; and after a kill the hub still reaches
    us."""
    world.write("old")
    with world.serve() as broker:
        ready(world, broker, "taken", "later")
        body = world.body("taken")
        assert world.push(body, world.signature(body)) == 202
        broker.kill()
    with world.serve() as broker:
        world.write("later", "taken", "old")
        world.hub.publish(world.url)
        world.hub.did("sent")
        while len(found := titles(broker)) < 2:
            assert broker.matches(after=len(found), wait=30), f"only {found} came"
        assert sorted(found) == ["later", "taken"]
