"""The service: starts and stops all parts over one state directory.

In: settings. Out: the parts, whose operations are plain calls from any thread that the HTTP API
translates, and the figures. Threads: the pipeline, the feeds, the deliveries, maintenance.

A call that changes the engine waits for the batch in flight. History (`backfill`, `dry_run`) and
`backup` hold the engine's lock throughout: documents are accepted meanwhile, and matched
afterwards.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from broker.delivery import Event, Mailbox
from broker.delivery.worker import DeliveryWorker
from broker.documents.ahead import Ahead, cores
from broker.engine import Engine
from broker.service.access.access import Access
from broker.service.access.agreement import agree_access
from broker.service.access.quotas import Quotas
from broker.service.backup import TOKEN, back_up
from broker.service.bulk import Bulk
from broker.service.channels import Channels
from broker.service.core.answers import (
    BackedUp,
    ServiceFigures,
    SpoolFigures,
    State,
)
from broker.service.core.core import Core
from broker.service.core.errors import Starting
from broker.service.course import EVERY, Course
from broker.service.events import event_row
from broker.service.explanations import Explanations
from broker.service.feeds import Feeds
from broker.service.intake import Intake
from broker.service.letters import DeadLetters
from broker.service.maintenance import Maintenance
from broker.service.metrics import Metrics
from broker.service.outgoing import delivery_settings
from broker.service.pipeline.driver import Driver, Pipeline, Watch
from broker.service.pipeline.local import LocalPipeline
from broker.service.sharing import Sharing, sharing
from broker.service.status import EngineFigures, look, sizes
from broker.service.streams import Streams
from broker.service.subscriptions import Subscriptions
from broker.service.tenants import Tenants
from broker.settings.schema import Settings
from broker.state.disk import free, write_private
from feeds.fair_lock import FairLock
from feeds.spool import Spool, SpoolError, stored_at

_log = structlog.get_logger(__name__)

_ABORT = 1.0
"""Seconds for threads to end when work in flight is not waited for."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that exist while the state is open."""

    core: Core
    intake: Intake
    subscriptions: Subscriptions
    streams: Streams
    bulk: Bulk
    explanations: Explanations
    channels: Channels
    letters: DeadLetters
    feeds: Feeds
    access: Access
    quotas: Quotas
    tenants: Tenants


class Service:
    """A service over the state directory of its settings. Nothing is opened before `start`.

    The operations are those of its parts: `service.subscriptions.pause(id)`. While the state is not
    open, access to a part raises Starting. `clock` returns seconds since the epoch. Operations
    raise the errors of `broker.service.core.errors`, and XsclError for an invalid query.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.state: Path = settings.state
        self.clock = clock
        self.metrics = Metrics()
        self.awaiting: list[Callable[[], bool]] = []
        """Each says whether a client waits for matches."""
        self.started = 0
        self.token = ""
        self._phase: State = "starting"
        self._changing = threading.Lock()
        self._halted: bool | None = None
        self._parts: _Parts | None = None

    # -- starting and stopping -------------------------------------------------------------------

    def start(self, safe: bool = False) -> None:
        """Open the state and start all threads; the pipeline may become ready later. A `safe` start
        pauses all subscriptions before anything is matched.

        Raises StateError, SpoolError, MailboxError, OSError or ValueError.
        """
        with ExitStack() as undo:
            core = Core(self.settings, self.clock)
            undo.callback(core.close)
            self.token = _token(self.settings, self.state)
            access = Access(self.state, core.now)
            undo.callback(access.close)
            agree_access(access, core.proof, core.mailbox.record_event)
            tenants = Tenants(core, access)
            self.course = Course(self.metrics, partial(look, core))
            self.watch = Watch(self.settings.pipeline.kind, core, self.course)
            intake = Intake(core, self.watch.rate)
            feeds = Feeds(core, intake.has_room)
            undo.callback(feeds.close, _ABORT)
            core.handing.on_suspension = self._suspended
            if safe:
                _pause_all(core)
            self._driver = Driver(core, self._pipeline(core), self.watch)
            self._worker = DeliveryWorker(
                core.mailbox, delivery_settings(self.settings), self.clock, on_event=_log_event
            )
            self._maintenance = Maintenance(core)
            self._maintenance.also("owners", 300.0, tenants.retain)
            self._maintenance.also("course", EVERY, self.course.sample)
            undo.pop_all()
        streams = Streams(core)
        self._parts = _Parts(
            core,
            intake,
            Subscriptions(core, streams, tenants),
            streams,
            Bulk(core, access, tenants),
            Explanations(core, tenants),
            Channels(core, self._worker),
            DeadLetters(core, intake),
            feeds,
            access,
            Quotas(intake.stored_of),
            tenants,
        )
        self._engine_figures = EngineFigures(core)
        self.started = core.now()
        self.course.sample()
        self._worker.start()
        self._driver.start()
        feeds.polling.start()
        self._maintenance.start()
        self._phase = "running"
        _log.info("service.started", state=str(self.state), pipeline=self.settings.pipeline.kind)

    def _pipeline(self, core: Core) -> Pipeline:
        settings = self.settings.pipeline
        ahead = Ahead(core.engine, min(settings.processes, cores()) > 1, memory=core.memory // 2)
        local = LocalPipeline(core, settings.batch, ahead=ahead, awaited=self.is_awaited)
        if settings.kind == "local":
            return local
        from broker.service.pipeline.spark import SparkPipeline

        return SparkPipeline(core, settings.batch, settings.master, local)

    def is_awaited(self) -> bool:
        """Whether somebody waits for matches: a client, or a channel that delivers them."""
        return self._worker.has_channels or any(each() for each in self.awaiting)

    def drain(self) -> None:
        """Accept no more documents. Accepted ones are still matched and delivered."""
        if self._phase == "running":
            self._phase = "draining"
            self.intake.open = False
            _log.info("service.draining")

    def stop(self, drain: bool = True, timeout: float = 30.0) -> bool:
        """Finish the batch and the deliveries in flight, and close the state.

        Returns whether all of it ended within `timeout` seconds. If not, it is repeated at the next
        start, and the state stays open until the process ends. Without `drain` the timeout is a
        second.
        """
        ended = self.halt(timeout if drain else _ABORT)
        self.close()
        return ended

    def halt(self, timeout: float) -> bool:
        """Finish work in flight and begin no more; returns whether it ended within the timeout. The
        state stays open for reading."""
        with self._changing:
            if self._parts is None or self._halted is not None:
                return self._halted is not False
            self.drain()
            deadline = time.monotonic() + timeout

            def remaining() -> float:
                return max(0.1, deadline - time.monotonic())

            ended = [
                self._driver.stop(remaining()),
                self.feeds.close(remaining()),
                self._maintenance.stop(remaining()),
                self._worker.stop(remaining()),
            ]
            self._halted = all(ended)
            return self._halted

    def close(self) -> None:
        """Close the state, once nothing uses it any more."""
        with self._changing:
            if self._parts is not None and self._halted:
                self.core.close()
                self.access.close()
                self._parts = None
                _log.info("service.stopped")
            self._phase = "stopped"

    def _suspended(self, id: str, reason: str) -> None:
        """Publish a suspension to the stream of the service's own events."""
        core = self.core
        # With the present time it would advance the watermark, and a published archive would be
        # late; before the first document no time has come yet.
        at = min(core.now(), max(core.engine.newest(), 0))
        try:
            core.spool.publish([event_row("subscription.suspended", id, reason, at)])
        except SpoolError as error:
            _log.error("event.lost", id=id, reason=str(error))

    # -- parts -----------------------------------------------------------------------------------

    def _open(self) -> _Parts:
        """The parts. Raises Starting while the state is not open."""
        if self._parts is None:
            raise Starting("the state is not open")
        return self._parts

    @property
    def core(self) -> Core:
        return self._open().core

    @property
    def intake(self) -> Intake:
        return self._open().intake

    @property
    def subscriptions(self) -> Subscriptions:
        return self._open().subscriptions

    @property
    def explanations(self) -> Explanations:
        return self._open().explanations

    @property
    def streams(self) -> Streams:
        return self._open().streams

    @property
    def bulk(self) -> Bulk:
        return self._open().bulk

    @property
    def channels(self) -> Channels:
        return self._open().channels

    @property
    def letters(self) -> DeadLetters:
        return self._open().letters

    @property
    def feeds(self) -> Feeds:
        return self._open().feeds

    @property
    def access(self) -> Access:
        return self._open().access

    @property
    def quotas(self) -> Quotas:
        return self._open().quotas

    @property
    def tenants(self) -> Tenants:
        return self._open().tenants

    @property
    def engine(self) -> Engine:
        return self.core.engine

    @property
    def lock(self) -> FairLock:
        return self.core.lock

    @property
    def spool(self) -> Spool:
        return self.core.spool

    @property
    def mailbox(self) -> Mailbox:
        return self.core.mailbox

    def backup(self, directory: Path) -> BackedUp:
        """Copy the state into a directory that is new or empty, while the service runs."""
        backup = back_up(self.core, self.access, directory)
        _log.info("service.backed_up", directory=str(directory))
        return backup

    def sharing(self) -> Sharing:
        """What the subscriptions share."""
        return sharing(self.engine, self.core.at_once())

    # -- figures ---------------------------------------------------------------------------------

    def figures(self) -> ServiceFigures:
        """The figures of the service; those of a busy engine may be older."""
        core = self.core
        now = core.now()
        # Before the engine's: if nothing is in its outbox then, all matches up to this position are
        # in the mailbox.
        position = core.position
        last = core.spool.last_seq()
        engine, suspended, at = self._engine_figures.read(now, last > position)
        oldest = None
        if last > position:
            with suppress(SpoolError):  # the pipeline then fails too, and reports it
                oldest = stored_at(core.reading, position)
        return ServiceFigures(
            at=now,
            started=self.started,
            state=self._phase,
            pipeline=self.watch.figures,
            spool=SpoolFigures(last, position, max(0, last - position), oldest),
            engine=engine,
            engine_age=now - at,
            mailbox=core.mailbox.figures(),
            feeds=self.feeds.figures(),
            suspended=suspended,
            maintenance=self._maintenance.problems,
            sizes=sizes(self.state),
            disk_free=free(self.state),
            unstored=core.unstored,
        )


def _pause_all(core: Core) -> None:
    """Pause all subscriptions, so that the state can be served whatever their queries do."""
    with core.lock:
        active = [each.id for each in core.engine.registered(status="active")]
        core.engine.pause_all(active, "the service was started with --safe", core.now())
    _log.warning("service.safe", paused=len(active))


def _token(settings: Settings, state: Path) -> str:
    """The token of clients: from the settings, or generated once and stored in the state."""
    if settings.server.token is not None:
        return settings.server.token.get_secret_value()
    path = state / TOKEN
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        write_private(path, token)
        return token


def _log_event(event: Event) -> None:
    _log.warning(event.kind, text=event.text, channel=event.channel, id=event.subscription)
