"""Metrics of the service, for Prometheus.

In: figures of the service, read at each scrape; observations of the pipeline and the API. Out: an
exposition. Names follow Prometheus' rules: base units, `_total` for counters. No label holds names
of subscriptions, channels or streams, whose number is unbounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from broker import delivery
from broker.delivery.model import Kind
from broker.figures import Figures as EngineFigures
from broker.model import MICROSECONDS
from broker.service.core.answers import ServiceFigures
from broker.service.core.errors import ServiceError
from broker.service.health import stalled

# Without the additional gauge per series that holds the time of its creation.
disable_created_metrics()  # type: ignore[no-untyped-call]

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
_KINDS: tuple[str, ...] = get_args(Kind)
_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}


class Metrics:
    """The metrics of a service, in a registry of their own. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stages = Histogram(
            "broker_batch_stage_duration_seconds",
            "Time that a batch of documents spends in a stage of the pipeline.",
            ["stage"],
            buckets=_FAST,
            registry=self.registry,
        )
        self._batch = Histogram(
            "broker_batch_documents",
            "Documents of a batch.",
            buckets=_COUNTS,
            registry=self.registry,
        )
        self._found = Histogram(
            "broker_batch_matches",
            "Matches that a batch of documents completes.",
            buckets=(0, *_COUNTS),
            registry=self.registry,
        )
        self._latency = Histogram(
            "broker_match_latency_seconds",
            "Time from the acceptance of a batch's oldest document until its matches are stored.",
            buckets=_SLOW,
            registry=self.registry,
        )
        self._requests = Counter(
            "broker_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        # The labels of a metric take longer to look up than it takes to count.
        self._stage_of: dict[str, Histogram] = {}
        self._request_of: dict[tuple[str, str, int], Counter] = {}
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)

    def read_from(self, figures: Callable[[], ServiceFigures], readers: Callable[[], int]) -> None:
        """Export these figures at each scrape; `readers` returns the number of waiting clients."""
        self.registry.register(_Figures(figures, readers))

    def observe_batch(self, stages: Mapping[str, float], documents: int, matches: int) -> None:
        """Count a committed batch: seconds by stage, documents, matches."""
        for stage, seconds in stages.items():
            own = self._stage_of.get(stage)
            if own is None:
                own = self._stage_of[stage] = self._stages.labels(stage)
            own.observe(seconds)
        self._batch.observe(documents)
        self._found.observe(matches)

    def observe_latency(self, seconds: float) -> None:
        """Count the time from the acceptance of a batch's oldest document to its commit."""
        self._latency.observe(seconds)

    def observe_request(self, method: str, route: str, status: int) -> None:
        """Count a request. `route` is the path of the route, not of the request."""
        known = method if method in _METHODS else "other"
        own = self._request_of.get((known, route, status))
        if own is None:
            own = self._requests.labels(known, route, str(status))
            self._request_of[known, route, status] = own
        own.inc()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that an Accept header requests, and its media type."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type


class _Figures(Collector):
    """Reads the figures of the service at each scrape."""

    def __init__(self, figures: Callable[[], ServiceFigures], readers: Callable[[], int]) -> None:
        self._figures = figures
        self._readers = readers

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        info = InfoMetricFamily("broker_build", "The version of the broker.")
        info.add_metric([], {"version": version("xml-stream-broker")})
        yield info
        yield _gauge("broker_waiting_clients", "Clients that wait for matches.", self._readers())
        try:
            figures = self._figures()
        except ServiceError:
            return  # the files are not open: only metrics that need no file are exported
        yield from _service(figures)
        yield from _intake(figures)
        if figures.engine is not None:
            yield from _engine(figures.engine)
        yield from _deliveries(figures.mailbox, figures.at)
        yield _gauge(
            "broker_dead_letters",
            "What was given up and is kept: documents that could not be processed, deliveries.",
            {
                "document": figures.engine.dead_letters if figures.engine else 0,
                "delivery": figures.mailbox.dead,
            },
            "kind",
        )


def _service(figures: ServiceFigures) -> Iterator[Metric]:
    pipeline = figures.pipeline
    yield _gauge("broker_running", "Whether the service runs, and does not start or stop.", figures.state == "running")  # fmt: skip
    yield _gauge("broker_pipeline_running", "Whether the pipeline runs.", pipeline.running)
    yield _gauge("broker_pipeline_failing", "Whether the pipeline stands still after a failure.", pipeline.failure is not None)  # fmt: skip
    yield _counter("broker_pipeline_restarts", "How often the pipeline was begun again after a failure.", pipeline.restarts)  # fmt: skip
    yield _counter("broker_poisoned_documents", "Documents that were set aside because the engine failed at them.", pipeline.poisoned)  # fmt: skip
    yield _gauge("broker_maintenance_failing", "Tasks of maintenance that fail.", len(figures.maintenance))  # fmt: skip
    yield _gauge("broker_state_size_bytes", "Size of the files of the state.", figures.sizes, "file")  # fmt: skip
    yield _gauge("broker_disk_free_bytes", "What is free on the disk of the state.", figures.disk_free)  # fmt: skip
    feeds = figures.feeds
    yield _gauge(
        "broker_feeds",
        "Feeds by status.",
        {"active": feeds.active, "paused": feeds.paused, "gone": feeds.gone},
        "status",
    )
    yield _gauge("broker_feeds_failing", "Active feeds whose last fetch failed.", feeds.failing)


def _intake(figures: ServiceFigures) -> Iterator[Metric]:
    spool = figures.spool
    waited = figures.at - spool.oldest if spool.backlog and spool.oldest else 0
    yield _counter("broker_documents_accepted", "Documents that were stored durably, over all restarts.", spool.last)  # fmt: skip
    yield _counter("broker_documents_processed", "Documents that were matched, over all restarts.", spool.applied)  # fmt: skip
    yield _gauge("broker_backlog_documents", "Documents that wait to be matched.", spool.backlog)
    still = stalled(figures) / MICROSECONDS
    yield _gauge("broker_backlog_stalled_seconds", "Time for which documents wait and none was matched.", still)  # fmt: skip
    yield _gauge("broker_lag_seconds", "How long the oldest document that waits to be matched has waited.", _seconds(waited))  # fmt: skip


def _engine(engine: EngineFigures) -> Iterator[Metric]:
    yield _gauge(
        "broker_subscriptions",
        "Subscriptions by status.",
        {
            "active": engine.subscriptions - engine.paused,
            "paused": engine.paused - engine.suspended,
            "suspended": engine.suspended,
        },
        "status",
    )
    yield _gauge("broker_canonical_queries", "Queries that differ in more than who asks.", engine.canonical)  # fmt: skip
    yield _gauge("broker_templates", "Templates that the queries share.", engine.templates)
    yield _gauge("broker_nfa_states", "States of the automaton of all tree patterns.", engine.nfa_states)  # fmt: skip
    yield _gauge("broker_variables", "Variables of all queries.", engine.variables)
    yield _gauge("broker_live_documents", "Documents that matches to come may hold.", engine.live_documents)  # fmt: skip
    yield _gauge("broker_match_relation_rows", "Rows of the match relations.", engine.rows)
    yield _gauge("broker_outbox_matches", "Matches that are not in the log yet.", engine.matches_in_outbox)  # fmt: skip
    if engine.watermark is not None:
        yield _gauge("broker_watermark_timestamp_seconds", "Documents from before are too late.", engine.watermark / MICROSECONDS)  # fmt: skip


def _deliveries(mailbox: delivery.Figures, now: int) -> Iterator[Metric]:
    yield _counter("broker_matches", "Matches that were taken into the log, over all restarts.", mailbox.taken)  # fmt: skip
    yield _counter("broker_matches_left_out", "Matches that throttles left out, over all restarts.", mailbox.left_out)  # fmt: skip
    yield _counter("broker_matches_repeated", "Matches that were handed over again, and known.", mailbox.repeated)  # fmt: skip
    yield _gauge("broker_log_matches", "Matches in the log.", mailbox.matches)
    outcomes = CounterMetricFamily(
        "broker_deliveries",
        "Deliveries by kind of channel and outcome; failed ones are tried again.",
        labels=["kind", "outcome"],
    )
    for outcome, counts in (
        ("delivered", mailbox.delivered),
        ("failed", mailbox.failed),
        ("given_up", mailbox.given_up),
    ):
        for kind in _KINDS:
            outcomes.add_metric([kind, outcome], counts.get(kind, 0))
    yield outcomes
    channels = GaugeMetricFamily(
        "broker_channels", "Channels by kind and status.", labels=["kind", "status"]
    )
    for (kind, status), count in mailbox.channels.items():
        channels.add_metric([kind, status], count)
    yield channels
    waiting = [since for since in mailbox.oldest.values() if since is not None]
    yield _gauge("broker_delivery_backlog_matches", "Deliveries that are due, over all channels; counted up to a bound.", sum(mailbox.backlog.values()))  # fmt: skip
    yield _gauge("broker_delivery_lag_seconds", "How long the oldest match that is due to a channel has waited.", _seconds(now - min(waiting, default=now)))  # fmt: skip
    yield _gauge("broker_delivery_retries", "Deliveries that wait to be tried again.", mailbox.retries)  # fmt: skip


def _seconds(microseconds: int) -> float:
    return max(0, microseconds) / MICROSECONDS


def _gauge(
    name: str, text: str, value: float | Mapping[str, float], label: str | None = None
) -> Metric:
    """A gauge, with one value or one for each value of the label."""
    if isinstance(value, Mapping):
        family = GaugeMetricFamily(name, text, labels=[label or ""])
        for each, number in value.items():
            family.add_metric([each], number)
        return family
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
