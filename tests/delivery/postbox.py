"""A mail server of the tests, which answers as it is told to, also over TLS and with a login."""

from __future__ import annotations

import email
import email.policy
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

from broker.delivery import Smtp
from tests.ports import reserved_port
from tests.waiting import PATIENCE


class Postbox:
    """Answers as it is told to, and keeps what it accepted."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.data_answer = "250 kept"
        self.refused: dict[str, str] = {}

    async def handle_RCPT(
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:
        if self.data_answer.startswith("250"):
            self.envelopes.append(envelope)
        return self.data_answer

    @property
    def messages(self) -> list[EmailMessage]:
        return [
            email.message_from_bytes(envelope.original_content or b"", policy=email.policy.default)
            for envelope in self.envelopes
        ]


@contextmanager
def server(**settings: Any) -> Iterator[tuple[Postbox, Smtp]]:
    postbox = Postbox()
    port = reserved_port()
    controller = Controller(postbox, hostname="127.0.0.1", port=port, **settings)
    controller.start()
    try:
        yield postbox, Smtp("127.0.0.1", port, sender="broker@tides.example", timeout=PATIENCE)
    finally:
        controller.stop()


CERTIFICATE = Path(__file__).parent / "localhost.pem"
"""A certificate of our own making for 127.0.0.1, with its key, until 2126."""


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(CERTIFICATE)
    return made


def authenticate(
    server: Any, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    assert isinstance(data, LoginPassword)
    right = (data.login, data.password) == (b"mara", b"ebb")
    return AuthResult(success=right, handled=False)


@contextmanager
def secure(tls: str) -> Iterator[tuple[Postbox, dict[str, Any]]]:
    """A server that wants a login over TLS; the settings that reach it."""
    if tls == "ssl":
        how: dict[str, Any] = {"ssl_context": context(), "auth_require_tls": False}
    else:
        how = {"tls_context": context(), "require_starttls": True}
    with server(authenticator=authenticate, auth_required=True, **how) as (postbox, smtp):
        settings = {
            "host": smtp.host,
            "port": smtp.port,
            "sender": smtp.sender,
            "tls": tls,
            "user": "mara",
            "password": "ebb",
            "ca_file": str(CERTIFICATE),
            "timeout": 10.0,
        }
        yield postbox, settings
