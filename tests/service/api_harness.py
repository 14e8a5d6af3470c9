"""A service with its API on a real server of this machine, for the tests of the API."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from broker.service.api.app import Api
from broker.service.api.common import KEEP_ALIVE, SIZES, PageSizes
from broker.service.api.server import answering as serve
from broker.service.api.server import listen
from broker.service.service import Service
from broker.settings.schema import Settings
from tests.waiting import PATIENCE

PAIR = "pair: S//book->b[./title->t] FOLLOWED BY {t = u, 7 days} S//blog->p[./title->u]"


@dataclass(frozen=True, slots=True)
class Running:
    """A service with its API at `url`; `http` sends the token with each request."""

    service: Service
    api: Api
    server: uvicorn.Server
    url: str
    http: httpx.Client

    def publish(
        self, *documents: Mapping[str, Any], stream: str = "S", **headers: str
    ) -> httpx.Response:
        """Publish documents as lines of JSON."""
        lines = "".join(json.dumps(document) + "\n" for document in documents)
        return self.http.post(
            f"/v1/streams/{stream}/documents",
            content=lines.encode(),
            headers={"Content-Type": "application/x-ndjson", **headers},
        )

    def subscribe(self, text: str = PAIR, **body: Any) -> httpx.Response:
        return self.http.post("/v1/subscriptions", json={"text": text, **body})

    def match(self, title: str, first: str = "book", more: str = "") -> None:
        """Publish a document and a blog post that PAIR joins, if the first is a book."""
        xml = f"<{first}><title>{title}</title>{more}</{first}>"
        post = f"<blog><title>{title}</title></blog>"
        done = self.publish(
            {"id": f"{first} {title}", "timestamp": "2026-10-05T06:40:00Z", "xml": xml},
            {"id": f"blog {title}", "timestamp": "2026-10-05T06:41:00Z", "xml": post},
        )
        assert done.status_code == 202, done.text

    def matches(self, **params: Any) -> list[dict[str, Any]]:
        answer = self.http.get("/v1/matches", params=params)
        assert answer.status_code == 200, answer.text
        return lines(answer)


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    """The lines of JSON in a response."""
    return [json.loads(line) for line in answer.content.splitlines()]


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem details of a response, which must have this status and type."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert (told["type"], told["status"]) == (f"urn:xscl-broker:{code}", status)
    return told


@contextmanager
def serving(
    state: Path,
    keep_alive: float = KEEP_ALIVE,
    sizes: PageSizes = SIZES,
    **overrides: Any,
) -> Iterator[Running]:
    """Run a service over a state directory; settings are given as `server__max_body="1 MB"`."""
    named = {name.replace("__", "."): value for name, value in overrides.items()}
    service = Service(Settings.load(None, {"state": str(state), **named}))
    service.start()
    try:
        with answering(service, keep_alive, sizes) as running:
            yield running
    finally:
        service.stop(drain=False)


@contextmanager
def answering(
    service: Service, keep_alive: float = KEEP_ALIVE, sizes: PageSizes = SIZES
) -> Iterator[Running]:
    """The API of a started service on a port of its own."""
    api = Api(service, keep_alive, sizes)
    with (
        listen(socket.AF_INET, ("127.0.0.1", 0)) as listening,
        serve(api, listening) as server,
    ):
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        headers = {"Authorization": f"Bearer {service.token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, verify=False) as http:
            http.get("/health/live").raise_for_status()
            yield Running(service, api, server, url, http)
