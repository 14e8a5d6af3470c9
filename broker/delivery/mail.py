"""Digests by mail: at most one per period and channel, of at most so many matches.

The Message-ID follows from the channel and the matches, so that a repeat after a crash can be
recognised; one that has got more matches meanwhile is another mail, or mailboxes would throw it
away. What stands in a match goes into headers only on one line, and encoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from broker.delivery.lanes import Lane
from broker.delivery.model import Channel, Delivered, Event
from broker.delivery.sending import Sent, beside
from broker.delivery.settings import Smtp
from broker.delivery.targets import MailTarget, target
from broker.model import MICROSECONDS
from broker.text.formats import as_text

_CONNECTIONS = 4
_SHOWN = 2_000
"""Characters of one match in the text."""
_SUBJECT = 200
_PERMANENT = 500


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
        """A period after the first match, and a period after the last digest; what a clock that was
        wrong has dated in the future does not count."""
        now = round(self._clock() * MICROSECONDS)
        times = [time for time in (first.taken, channel.last_success or 0) if time <= now]
        return max(times, default=0) + _target(channel).every

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent:
        if self._smtp is None:
            return Sent("no mail server is set")
        message = digest(channel, matches, self._smtp.sender, self._clock())
        return await self._deliver(self._smtp, message)

    async def tell(self, channel: Channel, event: Event) -> Sent:
        if self._smtp is None:
            return Sent("no mail server is set")
        message = _message(channel, self._smtp.sender, event.kind, self._clock())
        message.set_content(f"{event.text}\n", cte="quoted-printable")
        return await self._deliver(self._smtp, message)

    async def _deliver(self, smtp: Smtp, message: EmailMessage) -> Sent:
        post = _Post(smtp)
        async with self._places:
            try:
                async with asyncio.timeout(smtp.timeout):
                    return await beside(lambda: post.send(message), "mail")
            except TimeoutError:
                post.abandon()
                return Sent(f"{smtp.host}: not done within {smtp.timeout:g} s")
            except (OSError, smtplib.SMTPException) as error:
                return Sent(f"{smtp.host}: {_reason(error)}", hopeless=_is_hopeless(error))


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
    paragraphs = [_paragraph(delivered) for delivered in matches]
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
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = ", ".join(_target(channel).to)
    message["Subject"] = one_line(subject)[:_SUBJECT]
    message["Date"] = format_datetime(datetime.fromtimestamp(int(now), UTC))
    message["Auto-Submitted"] = "auto-generated"
    return message


def _paragraph(delivered: Delivered) -> str:
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


class _Post:
    """One connection for one mail; `abandon` ends it from another thread."""

    def __init__(self, smtp: Smtp) -> None:
        self._smtp = smtp
        self._session: smtplib.SMTP | None = None

    def send(self, message: EmailMessage) -> Sent:
        smtp = self._smtp
        context = ssl.create_default_context(cafile=smtp.ca_file)
        if smtp.tls == "ssl":
            session: smtplib.SMTP = smtplib.SMTP_SSL(timeout=smtp.timeout, context=context)
        else:
            session = smtplib.SMTP(timeout=smtp.timeout)
        self._session = session
        # The name that a certificate must bear; `connect` alone does not set it.
        session._host = smtp.host  # type: ignore[attr-defined]
        session.connect(smtp.host, smtp.port)
        with session:
            if smtp.tls == "starttls":
                session.starttls(context=context)
            if smtp.user is not None:
                session.login(smtp.user, smtp.password or "")
            refused = session.send_message(message)
        if refused:
            told = "; ".join(f"{to}: {_text(answer)}" for to, answer in refused.items())
            return Sent(state={"refused": told})
        return Sent(state={})

    def abandon(self) -> None:
        # Closing would wait for the thread that reads; this ends its reading.
        sock = self._session.sock if self._session is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _is_hopeless(error: Exception) -> bool:
    """Whether the server will not take this mail, as opposed to any, or now (RFC 5321, 4.2.1)."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= _PERMANENT for code, _ in error.recipients.values())
    return isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= _PERMANENT


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(f"{to}: {_text(answer)}" for to, answer in error.recipients.items())
    if isinstance(error, smtplib.SMTPResponseException):
        return _text((error.smtp_code, error.smtp_error))
    return str(error) or type(error).__name__


def _text(answer: tuple[int, bytes | str]) -> str:
    code, text = answer
    told = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return one_line(f"{code} {told}")[:_SUBJECT]
