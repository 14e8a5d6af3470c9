"""Any request to any route gives a response or a problem with a reason, never an internal error.

The routes, their parameters and their bodies are taken from the service's own description, so that
one that is added is tried too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.service.api.problems import MEDIA_TYPE, PREFIX, ProblemDetails
from tests.seeds import seeds
from tests.service.api_harness import Running, serving

# Parts of an address, as they stand on the wire.
SEGMENTS = [
    "x",
    "%00",
    "%0d%0aX-Header:%201",
    "%20",
    "%25",
    "%2e%2e",
    "%2F",
    "%3Fa=b",
    "%C3%A6",
    "%F0%9F%98%80",
    "%ED%A0%80",
    "%ff%fe",
    "%zz",
    "'%20OR%201=1--",
    "-1",
    "0",
    "1e9",
    "99999999999999999999999999",
    "a" * 3_000,
]
VALUES = [
    "",
    " ",
    "-1",
    "0.5",
    "1e400",
    "NaN",
    "null",
    "99999999999999999999999999",
    "9" * 5_000,
    "%00",
    "%ff",
    "%ED%A0%80",
    "true",
    "1,2,,3",
    "a" * 3_000,
    "[]",
]
BODIES = [
    b"",
    b" ",
    b"{",
    b"[",
    b"{}",
    b"[]",
    b"null",
    b"0",
    b'"x"',
    b"NaN",
    b"\x00",
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"),
    b"<a/>",
    b"<a",
    b"{" + b'"a":{' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"n": ' + b"9" * 5_000 + b"}",
    b'{"text": "' + b"(" * 20_000 + b'"}',
]
ODD = [
    None,
    True,
    0,
    -1,
    0.5,
    1e308,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "\0",
    "\r\n",
    "é" * 2_000,
    "INFINITY",
    "1 day",
    [],
    [None],
    ["\udfff"],
    {},
    {"\ud800": 1},
    {"url": "http://\ud800", "path": "\0", "to": 1, "every": -1, "rotate_bytes": 1e999},
    [{"kind": "pull", "name": "/"}],
]
TYPES = [
    None,
    "application/json",
    "application/xml",
    "application/x-ndjson",
    "text/plain",
    "a;b=c;;",
    "\xff",
]
HEADERS = [
    {"Authorization": "Bearer \xff\xfe"},
    {"Content-Type": "application/json; charset=utf-7"},
    {"Content-Type": "application/xml; charset=\xff"},
    {"Content-Type": "application/xml; charset=unicode_escape"},
    {"Content-Type": "text/xml; charset*=utf-8''%ff"},
    {"Content-Length": "0"},
    {"Last-Event-ID": "99999999999999999999"},
    {"Last-Event-ID": "\xff"},
    {"Document-Timestamp": "9" * 305},
    {"Document-Timestamp": "-" + "9" * 30},
    {"Document-Timestamp": "2026-13-45"},
    {"Document-Id": "\xff"},
    {"Document-Id": "x" * 5_000},
    {"Idempotency-Key": "\x80"},
    {"Document-Revision": "2"},
    {"If-None-Match": '"' * 500},
    {"If-Modified-Since": "Thu, 99 Foo 9999999999 99:99:99 GMT"},
    {"Accept": "application/openmetrics-text; version=;;q=x"},
    {"Accept-Encoding": "\xff"},
]

Operation = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("state"), server__max_body="2 MB") as running:
        yield running


@pytest.fixture(scope="module")
def openapi(running: Running) -> dict[str, Any]:
    return running.http.get("/openapi.json").json()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def operations(openapi: dict[str, Any]) -> list[Operation]:
    return [
        (method.upper(), path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]


def ask(running: Running, method: str, path: str, **request: Any) -> int:
    """Send a request as it is, and check the answer; its status."""
    headers = {
        name: value.encode("latin-1")
        for name, value in (request.pop("headers", None) or {}).items()
    }
    url = httpx.URL(running.url).copy_with(raw_path=path.encode())
    with running.http.stream(method, url, headers=headers, **request) as answer:
        status = answer.status_code
        told = f"{method} {path[:200]} {headers} {str(request)[:200]}: {status}"
        if path.split("?")[0] == "/health/ready" and status == 503:
            return status
        if status >= 400:
            assert status < 500, f"{told} {answer.read()[:2_000]!r}"
            assert answer.headers["content-type"] == MEDIA_TYPE, told
            problem = ProblemDetails(**json.loads(answer.read()))
            assert problem.status == status, told
            assert problem.type.startswith(PREFIX), told
            assert problem.detail, told
            assert running.service.token.encode() not in answer.content
    return status


def filled(path: str, segment: str = "x") -> str:
    for name in ("stream", "id", "name", "match_id", "number", "subscription"):
        path = path.replace(f"{{{name}}}", segment)
    assert "{" not in path
    return path


def test_odd_names_in_addresses(running: Running, operations: list[Operation]) -> None:
    for method, path, _ in operations:
        if "{" in path:
            for segment in SEGMENTS:
                ask(
                    running,
                    method,
                    filled(path, segment),
                    json={} if method in ("PUT", "POST") else None,
                )


def test_odd_addresses(running: Running) -> None:
    for path in (
        "//",
        "/v1",
        "/v1/",
        "/v1//x",
        "/%",
        "/v1/%2e%2e/status",
        "/docs/",
        "/" + "x" * 9_000,
    ):
        for method in ("GET", "POST", "HEAD", "OPTIONS", "TRACE", "BREW"):
            status = ask(running, method, path) if method != "HEAD" else 404
            assert status in (404, 405), path


def test_odd_values_of_parameters(running: Running, operations: list[Operation]) -> None:
    refused = 0
    for method, path, operation in operations:
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                for value in VALUES:
                    query = (
                        f"{filled(path)}?{parameter['name']}={value}&{parameter['name']}={value}"
                    )
                    refused += ask(running, method, query) == 422
    assert refused > 100


def test_odd_bodies_of_odd_types(running: Running, operations: list[Operation]) -> None:
    for method, path, operation in operations:
        if "requestBody" not in operation:
            continue
        for body in BODIES:
            for kind in TYPES:
                headers = {} if kind is None else {"Content-Type": kind}
                ask(running, method, filled(path), content=body, headers=headers)


def test_odd_fields_of_bodies(
    running: Running, openapi: dict[str, Any], operations: list[Operation]
) -> None:
    schemas = openapi["components"]["schemas"]
    for method, path, operation in operations:
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            continue
        schema = schemas[content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        whole = {
            "text": "q: S//a",
            "kind": "pull",
            "url": "x",
            "directory": "x",
            "channel": "x",
            "n": 0,
        }
        valid = {name: value for name, value in whole.items() if name in schema["properties"]}
        for field in [*schema["properties"], "unknown"]:
            for odd in ODD:
                body = json.dumps(valid | {field: odd})
                headers = {"Content-Type": "application/json"}
                ask(running, method, filled(path), content=body.encode(), headers=headers)


def test_odd_lines_of_documents(running: Running) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    for field in ("id", "timestamp", "xml", "revision", "source", "unknown"):
        for odd in [
            *ODD,
            1e300,
            -1e305,
            "9" * 305,
            "-" + "9" * 400,
            "0001-01-01",
            "9999-12-31T23:59:60Z",
        ]:
            line = json.dumps({"xml": "<a/>", field: odd}).encode()
            ask(running, "POST", "/v1/streams/S/documents", content=line, headers=headers)


def test_odd_headers(running: Running, operations: list[Operation]) -> None:
    for method, path, operation in operations:
        kind = next(iter(operation.get("requestBody", {}).get("content", {})), None)
        for odd in HEADERS:
            if path.endswith("/stream") and set(odd) & {"Content-Length"}:
                continue
            headers = ({} if kind is None else {"Content-Type": kind}) | odd
            body = b"" if "Content-Length" in odd else b"<a/>"
            ask(running, method, filled(path), headers=headers, content=body if kind else None)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(
    max_examples=len(seeds(60, 150)),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_bodies(
    running: Running, openapi: dict[str, Any], operations: list[Operation], data: st.DataObject
) -> None:
    taking = [
        o
        for o in operations
        if "application/json" in o[2].get("requestBody", {}).get("content", {})
    ]
    method, path, operation = data.draw(st.sampled_from(taking))
    reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    names = list(openapi["components"]["schemas"][reference.rpartition("/")[2]]["properties"])
    body = data.draw(st.dictionaries(st.sampled_from(names), values, max_size=len(names)) | values)
    headers = {"Content-Type": "application/json"}
    ask(running, method, filled(path), content=json.dumps(body).encode(), headers=headers)


def test_the_service_is_well_after_all_that(running: Running) -> None:
    assert running.http.get("/health/live").is_success
    assert running.subscribe().status_code == 201
    assert not Path("x").exists()
