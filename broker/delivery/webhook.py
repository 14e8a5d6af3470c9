"""Webhooks, by the Standard Webhooks specification 1.0.0.

A request per match: a POST with a JSON body (or what another `form` has), the match id as
`webhook-id`, the time of the attempt, and a signature (HMAC-SHA256, `v1`) with the channel's
secret; for a day after the secret was replaced there is a second one with the former secret. A 2xx
response is success, anything else failure, redirects too. 410 means that the receiver wants no more
matches; Retry-After is obeyed. Connections are kept open.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import httpcore
import httpx
from standardwebhooks.webhooks import Webhook

from broker.delivery.lanes import SLOW, Lane, Lanes
from broker.delivery.messages import Request, of_match, request
from broker.delivery.model import Channel, Delivered, Event
from broker.delivery.network import Connections
from broker.delivery.sending import Sent
from broker.delivery.settings import DAY, DeliverySettings
from broker.delivery.targets import MATCH, WebhookTarget, target
from broker.model import MICROSECONDS, iso_time
from feeds.schedule import retry_after
from feeds.transport import BlockedAddress

_BODY_SECONDS = 2.0
"""Seconds for reading the body of a response. If it takes longer the status counts all the same,
and the connection is closed."""
_SHOWN = 200
_GONE = 410


class WebhookSender:
    """Sends to the webhooks of all channels, inside one event loop. `clock` in seconds."""

    gives_up = True
    at_once = 8

    def __init__(self, settings: DeliverySettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._lanes = Lanes(settings.in_flight, settings.per_host)
        self._connections = Connections(settings.allow_private, settings.per_host)

    async def aclose(self) -> None:
        await self._connections.aclose()

    def batch(self, channel: Channel) -> int:
        return 1

    def due(self, channel: Channel, first: Delivered) -> int:
        return 0

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent:
        (delivered,) = matches
        match, hook = delivered.match, _hook(channel)
        if hook.form == "standard":
            time = iso_time(match.end_us)
            payload = {"type": MATCH, "timestamp": time, "data": delivered.to_json()}
            asked = Request("POST", hook.url, payload)
        else:
            asked = of_match(hook.form, hook.url, hook.chat, hook.template, delivered)
        return await self._send(hook, match.id, asked, lane)

    async def send_event(self, channel: Channel, event: Event) -> Sent:
        hook, id = _hook(channel), f"event_{event.at}_{event.number}"
        if hook.form == "standard":
            time = iso_time(event.at)
            payload = {"type": event.kind, "timestamp": time, "data": event.to_json()}
            asked = Request("POST", hook.url, payload)
        else:
            asked = request(hook.form, hook.url, hook.chat, event.kind, event.text, {"id": id})
        return await self._send(hook, id, asked, "new")

    async def _send(self, hook: WebhookTarget, id: str, asked: Request, lane: Lane) -> Sent:
        url = httpx.URL(asked.url)
        async with self._lanes.place(f"{url.host}:{url.port}", lane):
            began = time.monotonic()
            plain = isinstance(asked.body, str)
            body = asked.body if isinstance(asked.body, str) else encoded(asked.body)
            headers = [
                ("host", url.netloc.decode("ascii")),
                ("content-type", "text/plain; charset=utf-8" if plain else "application/json"),
                ("user-agent", self._settings.user_agent),
                *signed(hook, id, self._clock(), body),
                *hook.headers,
            ]
            sent = await self._exchange(asked.method, url, headers, body.encode())
            if time.monotonic() - began < SLOW:
                return sent
            return Sent(sent.reason, sent.wait, sent.gone, slow=True)

    async def _exchange(
        self, method: str, url: httpx.URL, headers: list[tuple[str, str]], body: bytes
    ) -> Sent:
        limit = self._settings.timeout
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        raw = [(name.encode(), value.encode()) for name, value in headers]
        try:
            async with (
                asyncio.timeout(limit) as answering,
                self._connections.request(method, target, raw, body, limit) as response,
            ):
                answering.reschedule(None)
                shown = await self._body(response)
        except TimeoutError:
            return Sent(f"no answer within {limit:g} s")
        except BlockedAddress as error:
            return Sent(str(error))
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            return Sent(f"{_KINDS.get(type(error), type(error).__name__)}: {error or 'no answer'}")
        except (OSError, ValueError) as error:  # certificates, names
            return Sent(f"{type(error).__name__}: {error}")
        return self._judge(response, shown)

    async def _body(self, response: httpcore.Response) -> bytes:
        """The beginning of the body. Only a body read to its end leaves the connection open."""
        shown = bytearray()
        size = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in response.aiter_stream():
                    shown += part[: _SHOWN - len(shown)]
                    size += len(part)
                    if size > self._settings.max_response:
                        break
        except (
            TimeoutError,
            httpcore.TimeoutException,
            httpcore.NetworkError,
            httpcore.ProtocolError,
        ):
            pass  # the status was received, and only that counts
        return bytes(shown)

    def _judge(self, response: httpcore.Response, shown: bytes) -> Sent:
        status = response.status
        if 200 <= status < 300:
            return Sent()
        text = " ".join(shown.decode("utf-8", "replace").split())
        printable = "".join(c for c in text if c.isprintable())
        redirected = " (redirects are not followed)" if 300 <= status < 400 else ""
        reason = f"HTTP {status}{redirected}" + (f": {printable}" if printable else "")
        asked = httpx.Headers(response.headers).get("retry-after", "")
        wait = min(retry_after(asked, self._clock()) or 0.0, DAY)
        return Sent(reason, wait, gone=status == _GONE)


_KINDS = {
    httpcore.ConnectError: "no connection",
    httpcore.ConnectTimeout: "no connection",
    httpcore.ReadError: "the connection broke",
    httpcore.WriteError: "the connection broke",
    httpcore.RemoteProtocolError: "no HTTP answer",
}


def encoded(payload: dict[str, Any]) -> str:
    """Compact JSON; lone surrogates, which UTF-8 cannot encode, are escaped."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":"))
    return text


def _hook(channel: Channel) -> WebhookTarget:
    hook = target("webhook", channel.settings)
    assert isinstance(hook, WebhookTarget)
    return hook


def signed(hook: WebhookTarget, id: str, now: float, body: str) -> list[tuple[str, str]]:
    """The three headers of Standard Webhooks. Former secrets sign too until their time is over."""
    at = datetime.fromtimestamp(int(now), UTC)
    former = [secret for secret, until in hook.old_secrets if until > now * MICROSECONDS]
    signatures = [Webhook(secret).sign(id, at, body) for secret in (hook.secret, *former)]
    return [
        ("webhook-id", id),
        ("webhook-timestamp", str(int(now))),
        ("webhook-signature", " ".join(signatures)),
    ]
