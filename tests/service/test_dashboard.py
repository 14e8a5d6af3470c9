"""The Grafana dashboard and the alert rules ask for what the service exports, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.cli.commands import SECTIONS
from tests.service.api_harness import serving
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
ALERTS: dict[str, Any] = json.loads((DEPLOY / "alerts.json").read_text())

OF_SCRAPES = {"job", "instance"}
"""Labels that Prometheus adds itself."""

Series = Mapping[str, Mapping[str, set[str]]]
"""The labels of each series, each with its values."""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    with serving(tmp_path_factory.mktemp("dashboard")) as running:
        running.subscribe()
        running.match("The Tide Clerk")
        until(running.matches)
        running.http.get("/v1/status")
        text = running.http.get("/metrics").text
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        # A histogram or a counter has no sample before the first observation of its labels.
        for part in PARTS.get(family.type, [""]):
            found.setdefault(f"{family.name}{part}", {})
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


PARTS = {"histogram": ["_bucket", "_sum", "_count"], "counter": ["_total"]}
"""What the series of a family are called, by its type."""


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in ALERTS["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def parsed(expression: str) -> promql_parser.Expr:
    """An expression as Prometheus reads it, with types; Grafana puts a duration for its variable.
    Raises ValueError."""
    return promql_parser.parse(expression.replace("$__rate_interval", "5m"))


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """The series for which an expression asks."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        return True

    promql_parser.walk(parsed(expression), visit)
    return found


@pytest.mark.parametrize("expression", [*expressions()])
def test_each_expression_asks_for_what_is_exported(expression: str, series: Series) -> None:
    asked = selectors(expression)
    assert asked
    for each in asked:
        name = each.name or ""
        assert name in series
        for matcher in each.matchers.matchers:
            if matcher.name not in OF_SCRAPES:
                assert matcher.value in series[name][matcher.name], str(each)


@pytest.mark.parametrize(
    "expression",
    ["rate(broker_running)", "sum(broker_running", "x{a=b}", "histogram_quantile(0.9)", "x +"],
)
def test_the_parser_knows_what_is_no_expression(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parsed(expression)


def test_what_alerts_quote_is_there(series: Series) -> None:
    """A label that their series do not have would be shown as nothing."""
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            known = {label for each in selectors(rule["expr"]) for label in series[each.name or ""]}
            for text in rule["annotations"].values():
                assert {*re.findall(r"\$labels\.(\w+)", text)} <= known | OF_SCRAPES, rule


def test_the_dashboard_can_be_imported() -> None:
    (source,) = DASHBOARD["__inputs"]
    named = "${" + source["name"] + "}"
    panels = DASHBOARD["panels"]
    kinds = {each["id"] for each in DASHBOARD["__requires"] if each["type"] == "panel"}
    assert {panel["type"] for panel in panels} == kinds
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith(".")
        used = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {each["uid"] for each in used} == {named}
        ids = [target["refId"] for target in panel["targets"]]
        assert len(set(ids)) == len(ids)
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    asked = set(re.findall(r"\$(\w+)", " ".join(t["expr"] for p in panels for t in p["targets"])))
    assert asked - {"__rate_interval"} == variables
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, "two panels overlap"
        assert one["x"] + one["w"] <= 24


def test_each_alert_says_what_to_do() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    commands = {name for section in SECTIONS.values() for name in section}
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        text = rule["annotations"]["description"]
        assert text.endswith(".")
        assert set(re.findall(r"\bbroker ([a-z]+)", text)) <= commands
