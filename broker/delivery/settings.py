"""The operator's settings for all deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Tls = Literal["none", "starttls", "ssl"]

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Smtp:
    """The mail server that digests go through. `timeout` in seconds, for a whole mail.

    Certificates are checked against `ca_file`, or what the system trusts.
    """

    host: str
    port: int = 25
    tls: Tls = "none"
    user: str | None = None
    password: str | None = None
    sender: str = "broker@localhost"
    timeout: float = 30.0
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Times in seconds, except those of retention, which are microseconds like the mailbox's.

    `schedule` holds the delays before the second and later attempts; after the last the delivery is
    given up. Each is stretched at random by up to `jitter` of itself. A channel that has had
    nothing but failures for `disable_after`, at least five in a row, is disabled.

    Channels write no file in `keep_out`. `in_flight` requests at a time go out to all webhooks,
    `per_host` to one host.
    Retention: what is delivered goes after `delivered`; what is not becomes a dead letter after
    `undelivered` (None: never); dead letters go after `dead`; `max_bytes` bounds the whole file.
    """

    allow_private: bool = False
    keep_out: Path | None = None
    timeout: float = 20.0
    schedule: tuple[float, ...] = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
    jitter: float = 0.1
    disable_after: float = 5 * DAY
    in_flight: int = 256
    per_host: int = 8
    max_response: int = 64 << 10
    user_agent: str = "xml-stream-broker"
    smtp: Smtp | None = None
    delivered: int | None = 7 * 86_400_000_000
    undelivered: int | None = 30 * 86_400_000_000
    dead: int | None = 90 * 86_400_000_000
    max_bytes: int | None = None
