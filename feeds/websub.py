"""WebSub (W3C Recommendation, 2018): hubs push new items, so that feeds need not be polled often.

In: the hubs that feeds name (`discover`), the spool, a fetcher for requests to hubs, and an address
under which hubs reach us. Out: pushed documents in the spool, next to fetched ones and under the
same identities, so that an item that is both pushed and fetched is stored once.

A feed whose subscription lapses, is denied or never verified is polled as any other, and one that
is pushed is still polled at long intervals.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from urllib.parse import urlencode

from feeds.adapter import parse_feed
from feeds.callback import CallbackServer
from feeds.fetch import MAX_BYTES, Fetched, Fetcher
from feeds.hints import Hints
from feeds.hubs import RENEW_AT, Subscription
from feeds.item import one_line
from feeds.schedule import DAY, failure_wait
from feeds.spool import Batch, Spool
from feeds.unpack import BadEncoding, TooLarge, unpack

SECOND = 1_000_000
LEASE = 10 * DAY
"""Seconds for which a subscription is requested; the hub may grant another lease."""
PATIENCE = 600.0
"""Seconds that a hub has for verifying, and the first wait between two tries."""
_LONGEST_LEASE = 366 * DAY
_ALGORITHMS = {name: getattr(hashlib, name) for name in ("sha1", "sha256", "sha384", "sha512")}


def discover(fetched: Fetched, hints: Hints, url: str) -> Subscription | None:
    """The subscription that a feed's document offers, None if it names no hub (section 4).

    If the document has no link to itself, the topic is the address that it came from.
    """
    if hints.hub is None:
        return None
    topic = hints.topic or fetched.final_url
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(32)
    return Subscription(url, hints.hub, topic, fetched.private, token, secret)


def signed(secret: str, body: bytes, signature: str) -> bool:
    """Whether `signature` ("sha256=...") is the HMAC of `body`, by any algorithm of section 8."""
    name, _, digest = signature.strip().partition("=")
    algorithm = _ALGORITHMS.get(name.lower())
    if algorithm is None:
        return False
    wanted = hmac.new(secret.encode(), body, algorithm).hexdigest()
    return hmac.compare_digest(wanted.encode(), digest.lower().encode())


class Subscriber(AbstractContextManager["Subscriber"]):
    """Keeps the feeds of a spool subscribed at their hubs, and stores the documents that they push.

    `callback` is the address of this program as hubs see it, for instance that of a reverse proxy
    in front of `host` and `port`; by default these themselves, which only hubs on this machine
    reach. The poller finds the hubs in the feeds it fetches. `lease` is in seconds.
    """

    def __init__(
        self,
        spool: Spool,
        fetcher: Fetcher,
        *,
        callback: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        lease: float = LEASE,
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._spool = spool
        self._fetcher = fetcher
        self._lease = lease
        self._now = now
        self._chance = chance
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._server = CallbackServer(
            (host, port), self.is_active, self.verify, self.receive, MAX_BYTES
        )
        self._callback = (callback or self._server.base).rstrip("/") + "/"
        self._thread = threading.Thread(target=self._run, name="websub", daemon=True)
        self.problem: BaseException | None = None

    def __enter__(self) -> Subscriber:
        self._spool.set_callback(self._callback)
        self._server.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)
        self._server.close()

    def live(self) -> frozenset[str]:
        """The feeds that are pushed now."""
        now = self._now() * SECOND
        return frozenset(hub.url for hub in self._spool.hubs() if hub.expires > now)

    # -- towards hubs --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.wait(1.0):
                self.renew_due()
        except BaseException as error:
            self.problem = error
            raise

    def renew_due(self) -> int:
        """Send a request for each subscription that is new, unanswered or about to end; returns how
        many were due."""
        due = self._spool.hubs(due=self._later(0))
        for subscription in due:
            if not self._stop.is_set():
                self._subscribe(subscription)
        return len(due)

    def _subscribe(self, subscription: Subscription) -> None:
        # The hub may verify before it answers. An unanswered request counts as a failure.
        later = self._later(failure_wait(PATIENCE, subscription.errors + 1, None, self._chance()))
        with self._lock:
            known = self._spool.hub(token=subscription.token)
            if known is None or known.next_try != subscription.next_try:
                return  # verified meanwhile, or replaced
            subscription = known
            if known.next_try > self._later(0):
                # A wrong clock has set its times, so it is unknown when it ends.
                subscription = replace(known, state="wanted", expires=0)
            errors = subscription.errors + (subscription.state == "asked")
            self._spool.save_hub(
                replace(subscription, state="asked", next_try=later, errors=errors)
            )
        form = {
            "hub.mode": "subscribe",
            "hub.topic": subscription.topic,
            "hub.callback": self._callback + subscription.token,
            "hub.lease_seconds": str(int(self._lease)),
            # Over plain http it may be overheard, but then so would be the callback alone.
            "hub.secret": subscription.secret,
        }
        answer = self._fetcher.post(
            subscription.hub, urlencode(form).encode(), allow_private=subscription.private
        )
        if answer.outcome == "ok":
            return
        with self._lock:
            known = self._spool.hub(token=subscription.token)
            if known is None or known.state != "asked":
                return
            errors = subscription.errors + 1
            wait = failure_wait(PATIENCE, errors, answer.retry_after, self._chance())
            self._spool.save_hub(
                replace(
                    known,
                    state="wanted",
                    errors=errors,
                    next_try=self._later(wait),
                    problem=(answer.problem or "").replace("fetch: ", "hub: ", 1),
                )
            )

    # -- from hubs -----------------------------------------------------------------------------

    def verify(self, token: str, query: Mapping[str, str]) -> bytes | None:
        """Answer a hub's verification (section 5.3): its challenge, or None if we did not request
        this subscription."""
        mode, topic = query.get("hub.mode", ""), query.get("hub.topic", "")
        with self._lock:
            known = self._spool.hub(token=token)
            if known is None or topic != known.topic:
                return None
            if mode == "denied":
                reason = one_line(query.get("hub.reason", ""))[:200]
                self._spool.save_hub(
                    replace(
                        known,
                        state="denied",
                        expires=0,
                        next_try=self._later(DAY),
                        problem=f"hub: denied: {reason}" if reason else "hub: denied",
                    )
                )
                return b""
            challenge = query.get("hub.challenge", "")
            # Only hubs that got a request know the token. The hub's response to it may have been
            # lost, or ours to an earlier verification, so a subscription that is "wanted" or
            # "active" is confirmed too.
            if mode != "subscribe" or known.state == "denied" or not challenge:
                return None
            given = query.get("hub.lease_seconds", "")
            lease = float(given[:9]) if given.isascii() and given.isdigit() else self._lease
            lease = min(max(lease, 1.0), _LONGEST_LEASE)
            self._spool.save_hub(
                replace(
                    known,
                    state="active",
                    expires=self._later(lease),
                    next_try=self._later(lease * RENEW_AT),
                    errors=0,
                    problem=None,
                )
            )
        return challenge.encode()

    def is_active(self, token: str) -> bool:
        """Whether the subscription with this token is active, so that its pushes are read."""
        known = self._spool.hub(token=token)
        return known is not None and known.expires > self._now() * SECOND

    def receive(self, token: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Store a pushed document (section 7); False if its subscription has been deleted.

        A document with a wrong signature is ignored without an error to the hub (section 8).
        """
        known = self._spool.hub(token=token)
        if known is None:
            return False
        if not signed(known.secret, body, headers.get("x-hub-signature", "")):
            self._record_problem(known, "hub: a push without its signature was ignored")
            return True
        try:
            body = unpack([body], headers.get("content-encoding", ""), MAX_BYTES)
        except (TooLarge, BadEncoding) as error:
            self._record_problem(known, f"hub: a push could not be unpacked: {error}")
            return True
        state = self._spool.state(known.url)
        if state.status != "active":
            return True
        arrival = self._later(0)
        channel = parse_feed(body, known.url, headers, arrival=arrival, final_url=known.topic)
        state = replace(state, title=channel.title or state.title)
        self._spool.append(Batch(state, arrival, channel, body, pushed=True), known_only=True)
        return True

    def _record_problem(self, subscription: Subscription, problem: str) -> None:
        with self._lock:
            known = self._spool.hub(token=subscription.token)
            if known is not None:
                self._spool.save_hub(replace(known, problem=problem))

    def _later(self, seconds: float) -> int:
        return int((self._now() + seconds) * SECOND)
