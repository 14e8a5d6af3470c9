"""One lifetime of a state: used by all clients at once, killed repeatedly, drained, and checked.

    kill, start, kill, start, … then no more documents, everything delivered, SIGTERM, and the
    verdict

A seed gives the documents, the changes of subscriptions, the faults of receivers and the moments of
the kills. What it cannot give is how threads and processes meet, so a seed that failed may pass.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.actors import Accepted, Actor, Caller, Publisher
from tests.crash.damaged import Damages
from tests.crash.desk import Desk
from tests.crash.mails import EVERY, LIMIT, TO, Mails
from tests.crash.notes import apart as done_apart
from tests.crash.notes import lives
from tests.crash.points import POINTS, SELDOM, Aim
from tests.crash.process import Served, configuration
from tests.crash.queries import PERMANENT
from tests.crash.receivers import Box, Follower, Puller, Reader
from tests.crash.site import Feeds
from tests.crash.state import State
from tests.crash.verdict import Evidence, judge, read_file, unreported
from tests.crash.webhooks import SECRET, Webhooks
from tests.crash.world import World
from tests.waiting import PATIENCE, pause

_REACH = 300.0
"""Seconds in which a point is passed, once it answers; then the kill comes anyway."""
_LEADING = {
    "channels made": "register",
    "throttle set": "register",
    "history found": "register",
    "history taking": "register",
    "registering": "register",
    "subscription written": "register",
    "subscribed": "register",
    "halting": "pause",
    "paused": "pause",
    "resumed": "resume",
    "suspended": "exceed",
    "suspension recorded": "exceed",
    "unsubscribed": "drop",
    "dropped": "drop",
}
"""What the desk does to get to a point."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill at a point, or (None) so many seconds after the service is up."""

    aim: Aim | None
    after: float = 0.0

    def __str__(self) -> str:
        return str(self.aim) if self.aim else f"after {self.after:.3f} s"


def random_kills(random: Random, count: int) -> list[Kill]:
    """Half of the kills at points, half at random times."""
    return [
        aimed(random, random.choice(list(POINTS)))
        if random.random() < 0.5
        else Kill(None, random.expovariate(2.5))
        for _ in range(count)
    ]


def aimed(random: Random, point: str) -> Kill:
    """A kill at one of the first passings of a point."""
    delay = random.random() * 0.01 if POINTS[point].when == "during" else 0.0
    return Kill(Aim(point, random.randint(1, 2 if point in SELDOM else 6), delay))


@dataclass(slots=True)
class Struck:
    """The outcome of a kill. `reached`: whether its point was passed in time."""

    kill: Kill
    reached: bool
    seconds: float


class Episode:
    """All clients around one state directory; a context manager."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        pipeline: str = "local",
        publishers: int = 2,
        damages: int = 0,
        apart: bool = False,
    ) -> None:
        self.directory = directory
        self.seed = seed
        self.pipeline = pipeline
        self.apart = apart
        self.struck: list[Struck] = []
        self.damages = Damages(directory, seed, damages) if damages else None
        self._stack = ExitStack()
        directory.mkdir(parents=True, exist_ok=True)
        self.world = World(seed, datetime.now(UTC))
        self.feeds = self._stack.enter_context(Feeds(self.world, seed))
        self.hooks = self._stack.enter_context(Webhooks(seed))
        self.mails = self._stack.enter_context(Mails(seed))
        # Spark takes its time to start; what is published meanwhile has to be matched afterwards.
        # And what takes milliseconds otherwise takes it tenths of a second: changes and upkeep come
        # less often, or every batch would be matched twice.
        batch, pace, slow = (40, 0.4, 1.0) if pipeline == "local" else (300, 0.8, 5.0)
        if apart:
            batch, pace = 1, 0.2  # so that the next one is there already while one is matched
        sections: dict[str, dict[str, object]] = {
            "pipeline": {"kind": pipeline, "batch": batch},
            "delivery.smtp": {
                "host": "127.0.0.1",
                "port": self.mails.port,
                "tls": "none",
                "sender": "broker@example.org",
            },
        }
        config = configuration(directory, self.feeds.urls, **sections)
        self.served = Served(config, plain=pipeline == "spark", slow=slow)
        self._stack.callback(self.served.close)
        self.accepted = Accepted()
        served = self.served
        self.desk = Desk(served, self.hooks.url, seed, pace=0.2 * slow)
        self.puller = Puller(served, "puller", seed)
        self.reader = Reader(served, seed)
        self.follower = Follower(served)
        self.copies = Copies(served, directory / "copies", seed)
        self.producers = [
            Actor(
                f"publisher {n}", Publisher(served, self.world, self.accepted, f"{seed} {n}", pace)
            )
            for n in range(publishers)
        ]
        self.producers += [Actor("desk", self.desk), Actor("copies", self.copies)]
        self.consumers = [
            Actor("puller", self.puller),
            Actor("reader", self.reader),
            Actor("follower", self.follower),
        ]

    def __enter__(self) -> Episode:
        return self

    def __exit__(self, *_: object) -> None:
        self.served.close()
        self.leave()
        self._stack.close()

    def leave(self) -> None:
        """Stop all clients, as the service does not run any more."""
        self.served.over = True
        actors = [each for each in (*self.producers, *self.consumers) if each.ident is not None]
        for actor in actors:
            actor.stop.set()
        for actor in actors:
            actor.join(10)
        self.served.over = False

    # -- the life --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Create the permanent channels and the first subscriptions, and start the clients. This
        needs no documents, so it uses the local pipeline, which starts at once."""
        self.served.start(None, "--pipeline", "local")
        call = Caller(self.served)
        for name, body in self._channels().items():
            call.json("PUT", f"/v1/channels/{name}", json=body)
        self.desk.begin()
        self.feeds.growing = True  # what came before would not have been seen by what stands
        for actor in [*self.producers, *self.consumers]:
            actor.start()

    def _channels(self) -> dict[str, dict[str, object]]:
        def hook(name: str, ordered: bool) -> dict[str, object]:
            settings = {"url": f"{self.hooks.url}/{name}", "secret": SECRET}
            return {"kind": "webhook", "settings": settings, "ordered": ordered}

        file = {"path": str(self.directory / "matches.jsonl")}
        return {
            "puller": {"kind": "pull"},
            "file": {"kind": "file", "settings": file},
            "in-order": hook("in-order", True),
            "any-order": hook("any-order", False),
            "mail": {"kind": "mail", "settings": {"to": TO, "every": EVERY, "limit": LIMIT}},
        }

    def kill(self, kill: Kill, then: Kill | None = None) -> Struck:
        """Kill the running process as told, and start it again, so that it dies by the next one. A
        process knows from its start where to die."""
        began = time.monotonic()
        served = self.served
        if kill.aim is None:
            assert not served.exited(kill.after), f"it died by itself:\n{served.tail()}"
        else:
            while not served.exited(0.02) and time.monotonic() < began + _REACH:
                self.check()
        reached = kill.aim is None or served.struck()
        served.kill()
        if self.damages is not None:
            self.damages.look(served.state)
        self.check()
        self.start(then)
        done = Struck(kill, reached, time.monotonic() - began)
        self.struck.append(done)
        return done

    def start(self, kill: Kill | None) -> None:
        """Start a process that is to die so; what leads there is done more often."""
        point = kill.aim.point if kill and kill.aim else ""
        self.copies.eager = point.endswith("copy")
        self.desk.often = _LEADING.get(point)
        apart = self.seed * 1_000 + len(self.struck) + 1 if self.apart else 0
        self.served.start(kill.aim if kill else None, apart=apart)

    def check(self) -> None:
        """Raise the error of a client, if any."""
        for actor in [*self.producers, *self.consumers]:
            if actor.failure is not None:
                raise AssertionError(f"{actor.name}: {actor.failure!r}") from actor.failure
        failures = [*self.hooks.failures, *self.mails.failures]
        assert not failures, failures[0]

    def quiet(self) -> None:
        """Publish and change no more; wait until everything is matched and delivered."""
        for actor in self.producers:
            actor.stop.set()
        for actor in self.producers:
            actor.join(PATIENCE)
            assert not actor.is_alive(), f"{actor.name} does not end"
        self.hooks.reliable = self.mails.reliable = True
        self.feeds.finish()
        self.wait(self.feeds.finished, "the feeds were not fetched")
        self.desk.look_back()
        self.wait(self._drained, "not everything is delivered")
        self.desk.audit()

    def _drained(self) -> bool:
        status = self.served.get("/v1/status")
        if status["intake"]["backlog"] or status["engine"]["outbox"]:
            return False
        deliveries = status["deliveries"]
        if deliveries["behind"] or deliveries["retries"]:
            return False
        last = len(self.served.matches())
        return all(len(box.got) >= last for box in (self.reader.box, self.follower.box))

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition as long as the service makes progress."""
        until, before = time.monotonic() + PATIENCE, 0
        while not condition():
            self.check()
            if time.monotonic() >= until:
                status = self.served.get("/v1/status")
                done = status["intake"]["applied"] + sum(status["deliveries"]["delivered"].values())
                assert done > before, f"{what}: {status}"
                until, before = time.monotonic() + PATIENCE, done
            pause(0.1)

    def verdict(self) -> dict[str, int]:
        """Stop the service and check the results; returns the number of everything."""
        own = {f"{id}.webhook" for id in self.desk.now if id not in PERMANENT}
        channels = {channel["name"] for channel in self.served.get("/v1/channels")}
        wanted = self._channels().keys() | own
        assert channels == wanted, f"channels {sorted(channels)}, not {sorted(wanted)}"
        self.check()
        boxes = (
            self.puller.box,
            self.reader.box,
            self.follower.box,
            self.hooks.boxes.get("in-order", Box("in-order", ordered=True)),
            self.hooks.boxes.get("any-order", Box("any-order", ordered=False)),
        )
        evidence = self.evidence()
        hooks = self.hooks.boxes.items()
        evidence = replace(
            evidence,
            boxes=(*boxes, read_file(self.directory / "matches.jsonl")),
            own={name.removeprefix("of/"): box for name, box in hooks if "of/" in name},
            digests=self.mails.digests,
        )
        found = judge(evidence) | {"changes": self.desk.changes, "copies": self.copies.made}
        if self.apart:
            found["batches apart"] = done_apart(self.served.notes)
        damaged = self.damages.outcomes if self.damages is not None else {}
        return found | {f"damages {outcome}": count for outcome, count in damaged.items()}

    def evidence(self) -> Evidence:
        """Stop the service; returns everything but the contents of the receivers."""
        # A subscription is listed as suspended once the batch is committed, and its owner is told
        # next.
        self.wait(lambda: not unreported(self.desk, self._pages("/v1/events")), "nobody is told")
        log, letters = self.served.matches(), self._pages("/v1/dead-letters")
        events = self._pages("/v1/events")
        throttled = {
            each["id"]: each["throttle"]["left_out"]
            for each in self.served.get("/v1/subscriptions")
            if each["throttle"]
        }
        code = self.served.stop()
        assert code == 0, f"exit code {code}:\n{self.served.tail()}"
        return Evidence(
            self.world,
            self.accepted,
            self.desk,
            State.read(self.served.state),
            log,
            letters,
            events,
            throttled,
            lives(self.served.notes),
        )

    def _pages(self, path: str) -> list[dict[str, Any]]:
        """All entries of a numbered list of the API."""
        found: list[dict[str, Any]] = []
        while page := self.served.get(path, after=found[-1]["number"] if found else 0, limit=1_000):
            found += page
        return found


class Copies:
    """A client that makes backups all the time."""

    def __init__(self, served: Served, directory: Path, seed: int) -> None:
        self._call = Caller(served)
        self._directory = directory
        self._number = 0
        self._random = Random(f"copies {seed}")
        self.eager = False
        self.made = 0

    def __call__(self) -> None:
        self._call.up()
        self._number += 1
        path = self._directory / str(self._number)
        answer = self._call("POST", "/v1/backup", json={"directory": str(path)})
        # Of one that was not answered, something lies there already.
        assert answer.is_success or (answer.status_code == 409 and self._call.tries > 1), (
            answer.text
        )
        self.made += answer.is_success
        shutil.rmtree(path, ignore_errors=True)
        # Each starts a process of its own, which costs as much as a hundred documents.
        pause(0.0 if self.eager else self._random.random() * 20)


def live(
    directory: Path,
    seed: int,
    kills: Sequence[Kill],
    *,
    pipeline: str = "local",
    damages: int = 0,
    apart: bool = False,
    tell: Callable[[Struck], None] = lambda struck: None,
) -> tuple[list[Struck], dict[str, int]]:
    """Run a whole episode; after each kill so many `damages` of copies are tried. `apart`: a second
    process does stage 1, and dies now and then. Raises AssertionError with how to repeat it."""
    with Episode(directory, seed, pipeline=pipeline, damages=damages, apart=apart) as episode:
        try:
            episode.begin()
            episode.served.kill()
            episode.start(kills[0])
            for kill, then in zip(kills, [*kills[1:], None], strict=True):
                tell(episode.kill(kill, then))
            episode.quiet()
            return episode.struck, episode.verdict()
        except BaseException as error:
            done = "; ".join(str(struck.kill) for struck in episode.struck)
            again = f"seed {seed}, {pipeline}, in {directory}, after {len(episode.struck)} kills: {done}"
            raise AssertionError(f"{error}\n{again}") from error
