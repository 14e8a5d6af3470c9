"""The exposition follows Prometheus' rules, checked by its own linter, and the values are right."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from broker.service.metrics import Metrics
from tests.service.api_harness import Running, serving
from tests.waiting import until

# What is no base unit, whole or as a part of a name.
UNITS = {
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "kibibytes",
    "mebibytes",
    "bits",
    "kilobits",
    "percent",
    "celsius",
    "kelvin",
    "grams",
    "kilograms",
    "meters",
}
ABBREVIATED = {
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "secs",
    "min",
    "mins",
    "h",
    "hr",
    "d",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "kib",
    "mib",
    "gib",
    "pct",
}
TYPES = {"counter", "gauge", "histogram", "summary"}
# Series of one metric, at most: nothing that users name is a label.
LARGEST = 200
# From elsewhere, with names of their own.
FOREIGN = ("python_", "process_")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("state")) as running:
        assert running.subscribe().status_code == 201
        running.http.put("/v1/channels/desk", json={"kind": "pull"})
        for title in ("Tide", "Clerk"):
            running.match(title)
        # The batch is observed after its matches are there.
        until(lambda: "broker_batch_matches_sum 2.0" in running.http.get("/metrics").text)
        running.publish({"xml": "<torn>"})
        running.http.get("/v1/nothing/at/all")
        yield running


@pytest.fixture(scope="module")
def text(running: Running) -> str:
    answer = running.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


@pytest.fixture(scope="module")
def families(text: str) -> list[Metric]:
    return list(prometheus(text))


def lint(text: str) -> list[str]:
    """What Prometheus' linter would complain of in an exposition, but of what others name."""
    found = [
        f"{name}: a counter without _total"
        for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE)
        if not name.endswith("_total")
    ]
    for metric in prometheus(text):
        if not metric.name.startswith(FOREIGN):
            found += [f"{metric.name}: {complaint}" for complaint in complaints(metric)]
    return found


def complaints(metric: Metric) -> Iterator[str]:
    """Those about one metric; the parser has taken `_total` off the names of counters."""
    words = metric.name.split("_")
    if not metric.documentation.strip():
        yield "no help text"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", metric.name):
        yield "neither camel case nor colons"
    if metric.type not in TYPES:
        yield f"no type: {metric.type}"
    if UNITS & set(words):
        yield "not a base unit"
    if ABBREVIATED & set(words):
        yield "an abbreviated unit"
    if TYPES & set(words):
        yield "its type in its name"
    if metric.type != "counter" and metric.name.endswith("_total"):
        yield "_total, but no counter"
    if metric.type != "histogram" and metric.name.endswith("_bucket"):
        yield "_bucket, but no histogram"
    if metric.type not in ("histogram", "summary") and metric.name.endswith(("_count", "_sum")):
        yield "_count or _sum, but no histogram"
    for unit in ("seconds", "bytes"):
        if unit in words and words[-1] != unit:
            yield "the unit is not at the end"
    for sample in metric.samples:
        if metric.type != "histogram" and {"le", "quantile"} & sample.labels.keys():
            yield "a label of histograms"
        if not all(re.fullmatch("[a-z][a-z0-9_]*", label) for label in sample.labels):
            yield f"labels {sample.labels}"


def test_the_linter_has_nothing_to_say(text: str, families: list[Metric]) -> None:
    assert lint(text) == []
    names = [metric.name for metric in families]
    assert len(set(names)) == len(names)
    assert all(name.startswith(("broker_", *FOREIGN)) for name in names)


def test_the_linter_finds_something() -> None:
    assert lint(
        "# TYPE broker_wait_ms gauge\nbroker_wait_ms 1\n"
        "# HELP broker_things Things.\n# TYPE broker_things counter\nbroker_things 1\n"
        "# HELP broker_bytes_free Free.\n# TYPE broker_bytes_free gauge\nbroker_bytes_free 1\n"
    ) == [
        "broker_things: a counter without _total",
        "broker_wait_ms: no help text",
        "broker_wait_ms: an abbreviated unit",
        "broker_bytes_free: the unit is not at the end",
    ]


def value(families: list[Metric], name: str, **labels: str) -> float:
    (found,) = (
        sample.value
        for metric in families
        for sample in metric.samples
        if sample.name == name and sample.labels == labels
    )
    return found


def test_what_the_requirements_name_is_there(families: list[Metric]) -> None:
    assert value(families, "broker_documents_accepted_total") == 5
    assert value(families, "broker_matches_total") == 2
    assert value(families, "broker_subscriptions", status="active") == 1
    assert value(families, "broker_subscriptions", status="suspended") == 0
    assert value(families, "broker_canonical_queries") == 1
    assert value(families, "broker_templates") == 1
    assert value(families, "broker_nfa_states") > 1
    assert value(families, "broker_state_size_bytes", file="broker.duckdb") > 0
    assert value(families, "broker_channels", kind="pull", status="active") == 1
    assert value(families, "broker_delivery_backlog_matches") == 2
    assert value(families, "broker_dead_letters", kind="delivery") == 0
    assert value(families, "broker_lag_seconds") >= 0
    assert value(families, "broker_running") == 1
    assert value(families, "broker_batch_matches_sum") == 2
    assert value(families, "broker_match_latency_seconds_count") >= 1
    assert value(families, "broker_batch_stage_duration_seconds_count", stage="stage1") >= 1
    assert value(families, "process_resident_memory_bytes") > 0
    assert (
        value(families, "broker_http_requests_total", method="GET", route="none", status="404") == 1
    )


def test_open_metrics_is_spoken_too(running: Running) -> None:
    answer = running.http.get(
        "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    names = {metric.name for metric in open_metrics(answer.text)}  # type: ignore[no-untyped-call]
    assert {"broker_documents_accepted", "broker_batch_stage_duration_seconds"} <= names


def test_no_label_holds_what_users_name(running: Running) -> None:
    for n in range(30):
        running.http.put(f"/v1/channels/c{n}", json={"kind": "pull"})
        running.http.get(f"/v1/subscriptions/s{n}")
        running.http.request(f"VERB{n}", "/v1/status")
    text = running.http.get("/metrics").text
    series: dict[str, int] = {}
    for metric in prometheus(text):
        for sample in metric.samples:
            series[sample.name] = series.get(sample.name, 0) + 1
    assert not re.search(r'"(pair|desk|c\d+|s\d+|VERB\d+)"', text)
    assert max(series.values()) < LARGEST


def test_what_can_be_told_is_told_before_the_state_is_open() -> None:
    from broker.service.core.answers import ServiceFigures
    from broker.service.core.errors import Starting

    def starting() -> ServiceFigures:
        raise Starting("the state is not open")

    metrics = Metrics()
    metrics.read_from(starting, lambda: 3)
    body, _ = metrics.exposition("")
    families = {metric.name: metric for metric in prometheus(body.decode())}
    assert families["broker_waiting_clients"].samples[0].value == 3
    assert "broker_running" not in families


def test_observations_are_counted_by_stage() -> None:
    metrics = Metrics()
    metrics.observe_batch({"join": 0.02, "commit": 0.001}, 100, 3)
    metrics.observe_batch({"join": 0.04}, 50, 0)
    metrics.observe_latency(0.2)
    families = list(prometheus(metrics.exposition("")[0].decode()))
    assert value(
        families, "broker_batch_stage_duration_seconds_sum", stage="join"
    ) == pytest.approx(0.06)
    assert value(families, "broker_batch_stage_duration_seconds_count", stage="commit") == 1
    assert value(families, "broker_batch_documents_sum") == 150
    assert value(families, "broker_batch_matches_count") == 2
    assert value(families, "broker_match_latency_seconds_bucket", le="0.25") == 1
