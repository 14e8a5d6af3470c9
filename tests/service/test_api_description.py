"""The OpenAPI description is complete for every route: parameters, responses, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from broker.service.api.problems import KINDS, MEDIA_TYPE, PREFIX, ProblemDetails
from tests.service.api_harness import Running, serving

# Of every route below /v1.
COMMON = {400, 401, 421, 422, 500, 503}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="module")
def openapi(running: Running) -> dict[str, Any]:
    return running.http.get("/openapi.json").json()  # type: ignore[no-any-return]


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects inside a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from objects(each)


def test_every_route_of_the_design_is_there(openapi: dict[str, Any]) -> None:
    found = {f"{method.upper()} {path}" for path, method, _ in operations(openapi)}
    assert found >= {
        "POST /v1/streams/{stream}/documents",
        "GET /v1/subscriptions",
        "POST /v1/subscriptions",
        "GET /v1/subscriptions/{id}",
        "DELETE /v1/subscriptions/{id}",
        "POST /v1/subscriptions/{id}/pause",
        "POST /v1/subscriptions/{id}/resume",
        "POST /v1/subscriptions/pause",
        "POST /v1/subscriptions/resume",
        "POST /v1/subscriptions/unsubscribe",
        "GET /v1/matches",
        "GET /v1/matches/stream",
        "POST /v1/matches/{match_id}/resend",
        "GET /v1/channels",
        "PUT /v1/channels/{name}",
        "GET /v1/channels/{name}",
        "DELETE /v1/channels/{name}",
        "POST /v1/channels/{name}/pause",
        "POST /v1/channels/{name}/resume",
        "POST /v1/channels/{name}/ack",
        "POST /v1/channels/{name}/reset",
        "POST /v1/channels/{name}/test",
        "GET /v1/deliveries/dead",
        "DELETE /v1/deliveries/dead",
        "POST /v1/deliveries/dead/resend",
        "GET /v1/dead-letters",
        "DELETE /v1/dead-letters",
        "POST /v1/dead-letters/{number}/resubmit",
        "GET /v1/status",
        "POST /v1/backup",
        "GET /v1/feeds",
        "POST /v1/feeds",
        "PATCH /v1/feeds",
        "DELETE /v1/feeds",
        "POST /v1/feeds/pause",
        "POST /v1/feeds/resume",
        "POST /v1/feeds/refresh",
        "GET /feeds/{subscription}.atom",
        "GET /metrics",
        "GET /health/live",
        "GET /health/ready",
    }


def test_every_operation_is_described(openapi: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in openapi["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations(openapi)]
    assert len(set(ids)) == len(ids)
    for path, method, operation in operations(openapi):
        where = f"{method} {path}"
        assert re.fullmatch(r"[a-z][A-Za-z]+", operation["operationId"]), where
        assert re.fullmatch(r".*[^.]", operation["summary"]), where
        assert operation["description"].endswith((".", ". ")), where
        assert len(operation["tags"]) == len(tags & set(operation["tags"])) == 1, where
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), f"{where}: {parameter['name']}"


def test_every_body_has_a_shape_and_an_example(openapi: dict[str, Any]) -> None:
    schemas = openapi["components"]["schemas"]
    for path, method, operation in operations(openapi):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            shape = content["schema"]
            if "$ref" in shape:
                shape = schemas[shape["$ref"].rpartition("/")[2]]
                assert shape["additionalProperties"] is False, f"{method} {path}"
            examples = [each for each in objects([content, shape]) if each.get("examples")]
            assert examples or shape.get("properties", {}).keys() == {"channel"}, f"{method} {path}"


def has_example(value: Any, schemas: dict[str, Any]) -> bool:
    """Whether there is an example in a content, or in the shapes that it refers to."""
    for each in objects(value):
        name = str(each.get("$ref", "")).rpartition("/")[2]
        if (
            each.get("examples")
            or each.get("example")
            or (name and has_example(schemas[name], schemas))
        ):
            return True
    return False


def test_every_success_has_an_example(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for status, answer in operation["responses"].items():
            for content in answer.get("content", {}).values() if status < "300" else ():
                assert has_example(content, openapi["components"]["schemas"]), f"{method} {path}"


def test_every_answer_is_described(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        answers = {int(status): answer for status, answer in operation["responses"].items()}
        where = f"{method} {path}"
        assert any(status < 300 for status in answers), where
        if path.startswith("/v1/"):
            assert answers.keys() >= COMMON, where
            assert operation["security"] == [{"HTTPBearer": []}], where
        if "requestBody" in operation:
            assert answers.keys() >= {413, 415}, where
        if "{" in path and method != "put" and "{stream}" not in path:
            assert 404 in answers, where
        for status, answer in answers.items():
            assert answer["description"].endswith("."), f"{where} {status}"
            assert answer["description"] != "Successful Response", f"{where} {status}"
            if status < 400:
                assert status in (204, 304) or answer["content"], f"{where} {status}"
            elif MEDIA_TYPE in answer["content"]:
                for code, example in answer["content"][MEDIA_TYPE]["examples"].items():
                    problem = ProblemDetails(**example["value"])
                    assert (problem.status, problem.title) == KINDS[code] == (status, problem.title)
                    assert problem.type == PREFIX + code
            else:
                assert (path, status) == ("/health/ready", 503)


def test_answers_that_ask_to_wait_say_for_how_long(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for status in {"429", "503"} & operation["responses"].keys():
            answer = operation["responses"][status]
            assert path == "/health/ready" or "Retry-After" in answer["headers"], f"{method} {path}"


def test_every_shape_is_described_and_used(openapi: dict[str, Any]) -> None:
    schemas = openapi["components"]["schemas"]
    referred = {
        each["$ref"].rpartition("/")[2]
        for each in objects(openapi)
        if isinstance(each.get("$ref"), str)
    }
    assert referred == schemas.keys()
    assert all(schema.get("description") for schema in schemas.values())


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def test_the_page_needs_no_network_and_no_script(running: Running, openapi: dict[str, Any]) -> None:
    answer = running.http.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page = _Page()
    page.feed(answer.text)
    assert "script" not in page.tags
    assert all(link.startswith("#") or link == "/openapi.json" for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {operation["operationId"] for _, _, operation in operations(openapi)} <= set(page.ids)
