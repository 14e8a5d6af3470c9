"""The rules by which requests are let in: tokens, hosts, sizes."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from broker.service.access.scopes import Identity
from broker.settings.schema import is_loopback


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the guard. `identify` returns the identity of a token other than the service's
    own, and `identify_key` that of a token's key. `hosts`: the allowed names in Host headers, None
    for any."""

    token: str
    identify: Callable[[str], Identity | None]
    identify_key: Callable[[str], Identity | None]
    metrics_token: str | None
    hosts: frozenset[str] | None
    max_body: int


def own_hosts(host: str, public_url: str | None) -> frozenset[str] | None:
    """The allowed hosts of a service that listens on `host`; None, for any, unless on loopback."""
    if not is_loopback(host):
        return None
    names = {"localhost", "127.0.0.1", "::1", host.lower()}
    public = urlsplit(public_url).hostname if public_url else None
    return frozenset(names | {public.lower()} if public else names)


def feed_key(token: str, subscription: str) -> str:
    """The key in the address of a subscription's feed, which gives access to that feed only."""
    message = b"feed:" + subscription.encode("utf-8", "surrogatepass")
    return hmac.digest(token.encode(), message, "sha256").hex()[:32]


def same(secret: str, expected: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return hmac.compare_digest(
        secret.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
