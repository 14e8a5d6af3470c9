"""Receivers of webhooks that fail at times."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random

from standardwebhooks.webhooks import Webhook

from tests.crash.receivers import Box
from tests.crash.server import Answer, Request, Server

SECRET = "whsec_" + "Y3Jhc2ggdGVzdHMgc2lnbiB3aXRoIHRoaXM="
"""With which webhooks sign."""


class Webhooks(Server):
    """A site of receivers, one for each path. They fail in all ways there are, a few times in a
    hundred; what they have got counts also where their answer was lost."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(f"webhooks {seed}")
        self._lock = threading.Lock()
        self._signed = Webhook(SECRET)
        self.boxes: dict[str, Box] = {}
        self.failures: list[str] = []
        self.reliable = False
        self.refusing = False
        self.hold: threading.Event | None = None
        """Until it is set, nobody is answered."""
        self.held = 0

    def answer(self, request: Request) -> Answer | None:
        if self.hold is not None and not self.hold.is_set():
            self.held += 1
            self.hold.wait()
        with self._lock:
            status = self._receive(request)
        if not status:
            return None
        return Answer(status, headers={"Retry-After": "0"} if status == 503 else {})

    def _receive(self, request: Request) -> int:
        """The status to answer with; 0: none."""
        if self.refusing:
            return 500
        fault = 1.0 if self.reliable else self._random.random()
        if fault < 0.06:
            return self._random.choice((500, 502, 503, 503, 302, 400))
        if fault < 0.08:
            return 0
        try:
            self._take(request.path, request.headers, request.body)
        except Exception as error:
            self.failures.append(f"{request.path}: {error!r}")
        if fault < 0.12:
            return self._random.choice((0, 500))
        return 204

    def _take(self, name: str, headers: Mapping[str, str], body: bytes) -> None:
        # By our own clock it would be too old: the sender's may be wrong.
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        signature = self._signed.sign(headers["webhook-id"], at, body.decode())
        assert headers["webhook-signature"] == signature
        payload = json.loads(body)
        assert payload["type"] == "match"
        delivered = payload["data"]
        assert headers["webhook-id"] == delivered["id"]
        box = self.boxes.setdefault(name, Box(name, ordered=name != "any-order"))
        box.add(delivered)
