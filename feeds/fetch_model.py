"""The request for a feed, and the result of fetching it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from feeds.login import Login

Outcome = Literal["ok", "not modified", "gone", "missing", "busy", "failed"]

MAX_VALIDATOR = 1_024
"""The largest number of characters of a validator, which is stored and sent back."""


@dataclass(frozen=True, slots=True)
class Request:
    """One feed to fetch: its address (URL or path), and the validators of its last response,
    verbatim.

    Unless `private` is set, private addresses and local files are refused even if the fetcher
    allows them.
    """

    url: str
    etag: str | None = None
    last_modified: str | None = None
    login: Login | None = None
    private: bool = True


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch.

    `outcome` is "ok" (with a `body`), "not modified", "gone" (410: do not fetch again), "missing"
    (404), "busy" (429 or 503; fetch again after `retry_after` seconds where the server said so;
    without a `status` an earlier Retry-After of the host still holds and no request was sent), or
    "failed". `moved_to` is the address to fetch from now on, after permanent redirects. `private`
    says that only private addresses were reached. `problem` is None if all went well. Names of
    headers are in lower case, their values as Latin-1.
    """

    url: str
    outcome: Outcome
    final_url: str
    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    moved_to: str | None = None
    retry_after: float | None = None
    problem: str | None = None
    private: bool = False

    @property
    def etag(self) -> str | None:
        return self._validator("etag")

    @property
    def last_modified(self) -> str | None:
        return self._validator("last-modified")

    def _validator(self, name: str) -> str | None:
        """A validator of reasonable length; it is stored, and sent back each time."""
        value = self.headers.get(name, "")
        return value if 0 < len(value) <= MAX_VALIDATOR else None
