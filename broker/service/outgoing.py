"""Converts the settings of the service to those of the delivery worker."""

from __future__ import annotations

from broker.delivery import DeliverySettings, Smtp
from broker.settings.schema import Settings

_SECOND = 1_000_000


def delivery_settings(settings: Settings) -> DeliverySettings:
    delivery, retention, server = settings.delivery, settings.retention, settings.delivery.smtp
    smtp = None
    if server.host is not None:
        smtp = Smtp(
            server.host,
            server.port,
            "ssl" if server.tls == "tls" else server.tls,
            server.user,
            None if server.password is None else server.password.get_secret_value(),
            server.sender or "",
            ca_file=None if server.ca is None else str(server.ca),
        )
    return DeliverySettings(
        allow_private=delivery.allow_private,
        keep_out=settings.state,
        timeout=delivery.timeout / _SECOND,
        schedule=tuple(wait / _SECOND for wait in delivery.schedule),
        smtp=smtp,
        delivered=retention.delivered,
        undelivered=retention.undelivered,
        dead=retention.dead_letters,
        max_bytes=retention.max_mailbox,
    )
