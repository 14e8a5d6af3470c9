"""One life of a state: used by everybody at once, killed again and again, drained and judged.

    kill, start, kill, start, … then no more documents, everything delivered, SIGTERM, and the verdict

A seed gives the documents, the changes of subscriptions, the faults of receivers and the moments of
the kills. What it cannot give is how threads and processes meet, so a seed that failed may pass.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.crash.actors import SECRET, Accepted, Actor, Caller, Desk, Publisher, pause
from tests.crash.points import POINTS, SELDOM, Aim
from tests.crash.process import Served, configuration
from tests.crash.receivers import Box, Follower, Puller, Reader, Webhooks
from tests.crash.site import Feeds
from tests.crash.verdict import Evidence, State, judge, read_file
from tests.crash.world import World

_REACH = {"local": 15.0, "spark": 90.0}
"""Seconds in which a point should be passed, once it answers; then the kill comes anyway."""
_PATIENCE = 120.0
_LEADING = {
    "channels made": "register",
    "registering": "register",
    "subscription written": "register",
    "subscribed": "register",
    "halting": "pause",
    "paused": "pause",
    "resumed": "resume",
    "unsubscribed": "drop",
    "dropped": "drop",
}
"""What the desk does to get to a point."""


@dataclass(frozen=True, slots=True)
class Kill:
    """At a point, or (None) so many seconds after the service answers."""

    aim: Aim | None
    after: float = 0.0

    def __str__(self) -> str:
        return str(self.aim) if self.aim else f"after {self.after:.3f} s"


def random_kills(random: Random, count: int) -> list[Kill]:
    """Half of them at points, half at any time."""
    return [
        aimed(random, random.choice(list(POINTS)))
        if random.random() < 0.5
        else Kill(None, random.expovariate(2.5))
        for _ in range(count)
    ]


def aimed(random: Random, point: str) -> Kill:
    """At one of the first passings of a point."""
    delay = random.random() * 0.01 if POINTS[point].when == "during" else 0.0
    return Kill(Aim(point, random.randint(1, 2 if point in SELDOM else 6), delay))


@dataclass(slots=True)
class Struck:
    """What became of a kill. `reached`: whether its point was passed in time."""

    kill: Kill
    reached: bool
    seconds: float


class Episode:
    """Everybody around one state directory. Use it with `with`."""

    def __init__(
        self, directory: Path, seed: int, *, pipeline: str = "local", publishers: int = 2
    ) -> None:
        self.directory = directory
        self.seed = seed
        self.pipeline = pipeline
        self.struck: list[Struck] = []
        self._stack = ExitStack()
        directory.mkdir(parents=True, exist_ok=True)
        self.world = World(seed, datetime.now(UTC))
        self.feeds = self._stack.enter_context(Feeds(self.world, seed))
        self.hooks = self._stack.enter_context(Webhooks(seed))
        # Spark takes its time to start; what is published meanwhile has to be matched afterwards.
        batch, pace = (40, 0.08) if pipeline == "local" else (300, 0.8)
        config = configuration(
            directory, self.feeds.urls, pipeline={"kind": pipeline, "batch": batch}
        )
        self.served = Served(config, plain=pipeline == "spark")
        self._stack.callback(self.served.close)
        self.accepted = Accepted()
        served = self.served
        self.desk = Desk(served, self.hooks.url, seed)
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
        """Nobody uses the service any more, which is not there."""
        self.served.over = True
        actors = [each for each in (*self.producers, *self.consumers) if each.ident is not None]
        for actor in actors:
            actor.stop.set()
        for actor in actors:
            actor.join(10)
        self.served.over = False

    # -- the life --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the channels that are always there and the first subscriptions, and let go."""
        self.served.start()
        call = Caller(self.served)
        for name, body in self._channels().items():
            call.json("PUT", f"/v1/channels/{name}", json=body)
        self.desk.begin()
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
        }

    def kill(self, kill: Kill, then: Kill | None = None) -> Struck:
        """Kill the running process as told, and start it again, so that it dies by the next one. A
        process knows from its start where to die."""
        began = time.monotonic()
        served = self.served
        if kill.aim is None:
            assert not served.exited(kill.after), f"it died by itself:\n{served.tail()}"
        else:
            while not served.exited(0.02) and time.monotonic() < began + _REACH[self.pipeline]:
                self.check()
        reached = kill.aim is None or served.struck()
        served.kill()
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
        self.served.start(kill.aim if kill else None)

    def check(self) -> None:
        """Raise what an actor found wrong."""
        for actor in [*self.producers, *self.consumers]:
            if actor.failure is not None:
                raise AssertionError(f"{actor.name}: {actor.failure!r}") from actor.failure
        assert not self.hooks.failures, self.hooks.failures[0]

    def quiet(self) -> None:
        """No more documents and changes; wait until everything is matched and delivered."""
        for actor in self.producers:
            actor.stop.set()
        for actor in self.producers:
            actor.join(_PATIENCE)
            assert not actor.is_alive(), f"{actor.name} does not end"
        self.hooks.reliable = True
        self.feeds.finish()
        self.wait(self.feeds.finished, "the feeds were not fetched")
        self.desk.audit()
        self.wait(self._drained, "not everything is delivered")

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
        until = time.monotonic() + _PATIENCE
        while not condition():
            self.check()
            assert time.monotonic() < until, f"{what}: {self.served.get('/v1/status')}"
            pause(0.02)

    def verdict(self) -> dict[str, int]:
        """Stop, and judge what came out; how much there was of everything."""
        letters, log = self.letters(), self.served.matches()
        channels = {channel["name"] for channel in self.served.get("/v1/channels")}
        own = {f"{id}.webhook" for id in self.desk.now if id not in ("first", "second")}
        wanted = {"puller", "file", "in-order", "any-order"} | own
        assert channels == wanted, f"channels {sorted(channels)}, not {sorted(wanted)}"
        self.check()
        code = self.served.stop()
        assert code == 0, f"exit code {code}:\n{self.served.tail()}"
        boxes = [
            self.puller.box,
            self.reader.box,
            self.follower.box,
            self._hook("in-order"),
            self._hook("any-order"),
            read_file(self.directory / "matches.jsonl"),
        ]
        hooks = self.hooks.boxes
        evidence = Evidence(
            self.world,
            self.accepted,
            self.desk,
            State.read(self.served.state),
            log,
            letters,
            boxes,
            {name.removeprefix("of/"): box for name, box in hooks.items() if "of/" in name},
        )
        return judge(evidence) | {"changes": self.desk.changes, "copies": self.copies.made}

    def _hook(self, name: str) -> Box:
        return self.hooks.boxes.get(name, Box(name, ordered=True))

    def letters(self) -> list[dict[str, object]]:
        """All documents that were kept aside."""
        found: list[dict[str, object]] = []
        while True:
            after = found[-1]["number"] if found else 0
            page = self.served.get("/v1/dead-letters", after=after, limit=1_000)
            if not page:
                return found
            found += page


class Copies:
    """Somebody who backs up all the time."""

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
        pause(0.0 if self.eager else self._random.random() * 4)


def live(
    directory: Path,
    seed: int,
    kills: Sequence[Kill],
    *,
    pipeline: str = "local",
    tell: Callable[[Struck], None] = lambda struck: None,
) -> tuple[list[Struck], dict[str, int]]:
    """A whole episode. AssertionError with the way to run it again."""
    with Episode(directory, seed, pipeline=pipeline) as episode:
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
