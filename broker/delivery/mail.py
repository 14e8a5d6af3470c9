"""Digests by mail: at most one per period and channel, of at most so many matches.

The Message-ID is derived from the channel and the matches, so that a repeat after a crash can be
recognised; a digest with more matches has another id, or mail programs would discard it as a
repeat. Text of matches is put into headers on one line only, and encoded.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponse,
    SMTPResponseException,
)

from broker.delivery.lanes import Lane
from broker.delivery.messages import fill
from broker.delivery.model import Channel, Delivered, Event
from broker.delivery.sending import Sent
from broker.delivery.settings import Smtp
from broker.delivery.targets import MailTarget, target
from broker.model import MICROSECONDS
from broker.text.people import as_text

_CONNECTIONS = 4
_SHOWN = 2_000
"""Characters of one match in the text."""
_SUBJECT = 200
_PERMANENT = 500
_FAREWELL = 5.0
"""Seconds to wait for the reply to QUIT, after the server has accepted the mail."""


class MailSender:
    """Sends the digests of all channels. `clock` in seconds."""

    gives_up = True
    at_once = 1

    def __init__(self, smtp: Smtp | None, clock: Callable[[], float]) -> None:
        self._smtp = smtp
        self._clock = clock
        self._places = asyncio.Semaphore(_CONNECTIONS)

    def batch(self, channel: Channel) -> int:
        return _target(channel).limit

    def due(self, channel: Channel, first: Delivered) -> int:
        """When the next digest is due: a period after the first match and after the last digest.
        Times in the future, which a wrong clock has set, do not count."""
        now = round(self._clock() * MICROSECONDS)
        times = [time for time in (first.taken, channel.last_success or 0) if time <= now]
        return max(times, default=0) + _target(channel).every

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent:
        if self._smtp is None:
            return Sent("no mail server is set")
        message = digest(channel, matches, self._smtp.sender, self._clock())
        return await self._deliver(self._smtp, message)

    async def send_event(self, channel: Channel, event: Event) -> Sent:
        if self._smtp is None:
            return Sent("no mail server is set")
        message = _message(channel, self._smtp.sender, event.kind, self._clock())
        message.set_content(f"{event.text}\n", cte="quoted-printable")
        return await self._deliver(self._smtp, message)

    async def _deliver(self, smtp: Smtp, message: EmailMessage) -> Sent:
        async with self._places:
            try:
                refused = await _hand_over(smtp, message)
            except TimeoutError:
                return Sent(f"{smtp.host}: not done within {smtp.timeout:g} s")
            except (OSError, SMTPException) as error:
                return Sent(f"{smtp.host}: {_reason(error)}", hopeless=_is_hopeless(error))
        answers = [f"{to}: {_text(code, text)}" for to, (code, text) in refused.items()]
        return Sent(state={"refused": "; ".join(answers)} if answers else {})


async def _hand_over(smtp: Smtp, message: EmailMessage) -> dict[str, SMTPResponse]:
    """Hand a mail to the server; returns its responses for the recipients that it refused."""
    trusted = partial(ssl.create_default_context, cafile=smtp.ca_file)
    session = SMTP(
        hostname=smtp.host,
        port=smtp.port,
        username=smtp.user,
        password=smtp.password,
        timeout=smtp.timeout,
        use_tls=smtp.tls == "ssl",
        start_tls=smtp.tls == "starttls",
        tls_context=None if smtp.tls == "none" else await asyncio.to_thread(trusted),
    )
    try:
        async with asyncio.timeout(smtp.timeout):
            await session.connect()
            refused, _ = await session.send_message(message)
        with suppress(SMTPException):  # the server has accepted the mail already
            await session.quit(timeout=_FAREWELL)
    finally:
        session.close()
    return refused


def _target(channel: Channel) -> MailTarget:
    found = target("mail", channel.settings)
    assert isinstance(found, MailTarget)
    return found


def digest(channel: Channel, matches: Sequence[Delivered], sender: str, now: float) -> EmailMessage:
    """The mail for these matches, of which there is at least one."""
    mail = _target(channel)
    first = matches[0].match
    count = f"{len(matches):,} {'match' if len(matches) == 1 else 'matches'}"
    subject = mail.subject.replace("{count}", count)
    subject = subject.replace("{subscription}", channel.subscription or "all subscriptions")
    message = _message(channel, sender, subject, now)
    what = "\n".join([channel.name, *(delivered.match.id for delivered in matches)])
    which = hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    message["Message-ID"] = f"<{_safe(first.id)}.{which}@{sender.rpartition('@')[2]}>"
    paragraphs = [_paragraph(delivered, mail.template) for delivered in matches]
    if len(matches) == mail.limit:
        paragraphs.append("If there are more, they come with the next mail.\n")
    message.set_content("\n".join(paragraphs), cte="quoted-printable")
    if mail.attach:
        results = "\n".join(delivered.match.result for delivered in matches)
        document = f'<?xml version="1.0" encoding="UTF-8"?>\n<matches>\n{results}\n</matches>\n'
        message.add_attachment(
            document.encode("utf-8", "replace"),
            maintype="application",
            subtype="xml",
            filename="matches.xml",
        )
    return message


def _message(channel: Channel, sender: str, subject: str, now: float) -> EmailMessage:
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = sender
    message["To"] = ", ".join(_target(channel).to)
    message["Subject"] = one_line(subject)[:_SUBJECT]
    message["Date"] = format_datetime(datetime.fromtimestamp(int(now), UTC))
    message["Auto-Submitted"] = "auto-generated"
    return message


def _paragraph(delivered: Delivered, template: str | None) -> str:
    if template is not None:
        return f"{fill(template, delivered)}\n"
    text = as_text(delivered.match)
    if len(text) > _SHOWN:
        text = text[: _SHOWN - 1] + "…\n"
    if delivered.left_out:
        text += f"    ({delivered.left_out:,} before it were left out)\n"
    text += f"    id {delivered.match.id}\n"
    return text.encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    """Text fit for a header: no line ends, nothing that does not print."""
    folded = " ".join(text.split())
    return "".join(c for c in folded if c.isprintable()).encode("utf-8", "replace").decode()


def _safe(id: str) -> str:
    return "".join(c for c in id if c.isascii() and (c.isalnum() or c in "-_"))[:100] or "match"


def _is_hopeless(error: Exception) -> bool:
    """Whether the server refuses this mail for good, and not all mail or only for now (RFC 5321,
    4.2.1)."""
    if isinstance(error, SMTPRecipientsRefused):
        return all(refused.code >= _PERMANENT for refused in error.recipients)
    return isinstance(error, SMTPDataError) and error.code >= _PERMANENT


def _reason(error: Exception) -> str:
    if isinstance(error, SMTPRecipientsRefused):
        return "; ".join(f"{r.recipient}: {_text(r.code, r.message)}" for r in error.recipients)
    if isinstance(error, SMTPResponseException):
        return _text(error.code, error.message)
    return str(error.__cause__ or error) or type(error).__name__


def _text(code: int, text: str) -> str:
    return one_line(f"{code} {text}")[:_SUBJECT]
