"""A mail server that fails at times, and a reader of the digests sent through it."""

from __future__ import annotations

import re
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import default
from random import Random
from typing import Any

from aiosmtpd.controller import Controller

from tests.ports import reserved_port

TO = "desk@example.org"
EVERY = 400_000
"""Microseconds between two digests."""
LIMIT = 200


@dataclass(frozen=True, slots=True)
class Digest:
    """A mail by its Message-ID: its matches in order. `at`: when it first arrived. `text`: what it
    says."""

    id: str
    matches: tuple[str, ...]
    at: float
    text: str = field(repr=False)


class Mails(AbstractContextManager["Mails"]):
    """Keeps the digests that were accepted, also those whose sender was not told so.

    A mail whose Message-ID was there before is the same mail: it is thrown away, as mailboxes do.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(f"mails {seed}")
        self._lock = threading.Lock()
        self.digests: list[Digest] = []
        self.failures: list[str] = []
        self.repeated = 0
        self.reliable = False
        self.port = reserved_port()
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Called by the server for each mail."""
        at = time.time()
        with self._lock:
            fault = 1.0 if self.reliable else self._random.random()
        if fault < 0.06:
            return "451 try again later"
        if fault < 0.1:
            server.transport.abort()
            return "451 gone"
        with self._lock:
            try:
                self._take(envelope, at)
            except Exception as error:
                self.failures.append(f"mail: {error!r}")
        if fault < 0.16:
            server.transport.abort()
        return "250 taken"

    def _take(self, envelope: Any, at: float) -> None:
        assert envelope.rcpt_tos == [TO]
        message = message_from_bytes(envelope.content, policy=default)
        body = message.get_body(("plain",))
        assert body is not None
        text = body.get_content()
        matches = tuple(re.findall(r"^    id (\S+)\r?$", text, re.MULTILINE))
        assert 0 < len(matches) <= LIMIT
        assert str(message["Subject"]).startswith(f"{len(matches)} ")
        digest = Digest(str(message["Message-ID"]), matches, at, text)
        before = next((each for each in self.digests if each.id == digest.id), None)
        if before is None:
            self.digests.append(digest)
            return
        self.repeated += 1
        assert before.matches == matches, "two mails with one Message-ID and other matches"

    def __enter__(self) -> Mails:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()
