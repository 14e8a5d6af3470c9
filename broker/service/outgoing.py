"""The settings of deliveries, as the delivery worker takes them."""

from __future__ import annotations

from broker.delivery import DeliverySettings, Smtp
from broker.settings.schema import Settings

_SECOND = 1_000_000


def delivery_settings(settings: Settings) -> DeliverySettings:
    given, kept = settings.delivery, settings.retention
    smtp = None
    if given.smtp.host is not None:
        password = given.smtp.password
        smtp = Smtp(
            given.smtp.host,
            given.smtp.port,
            "ssl" if given.smtp.tls == "tls" else given.smtp.tls,
            given.smtp.user,
            None if password is None else password.get_secret_value(),
            given.smtp.sender or "",
            ca_file=None if given.smtp.ca is None else str(given.smtp.ca),
        )
    return DeliverySettings(
        allow_private=given.allow_private,
        timeout=given.timeout / _SECOND,
        schedule=tuple(wait / _SECOND for wait in given.schedule),
        smtp=smtp,
        delivered=kept.delivered,
        undelivered=kept.undelivered,
        dead=kept.dead_letters,
        max_bytes=kept.max_mailbox,
    )
