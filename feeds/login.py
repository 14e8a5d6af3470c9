"""Logins of feeds: taken out of the addresses that users type, and sent to one host only.

In: an address with `user:password@`, and the environment. Out: the address without it, and a
header. A login is in no message, no document and no name of a feed.
"""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443}


class NoLogin(Exception):
    """A variable that the login names is not in the environment."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login for the scheme, host and port of `url`, and no other.

    `text` is "user:password", escaped as in a URL. Where either is `$NAME`, the variable NAME of
    the environment stands for it, so that no secret need be typed or stored.
    """

    url: str
    text: str = field(repr=False)

    @classmethod
    def of(cls, url: str, text: str | None) -> Login | None:
        return None if text is None else cls(url, text)

    def is_for(self, url: str) -> bool:
        """Whether it may be sent to `url`: the same origin, or the same host by https instead of
        http."""
        ours, theirs = _origin(self.url), _origin(url)
        upgrade = ours[0::2] == ("http", 80) and theirs[0::2] == ("https", 443)
        return ours == theirs or (upgrade and ours[1] == theirs[1])

    def header(self) -> bytes:
        """The value of Authorization (RFC 7617). Raises NoLogin if a variable is missing."""
        user, _, password = self.text.partition(":")
        pair = f"{_expanded(user)}:{_expanded(password)}"
        return b"Basic " + b64encode(pair.encode())


def split_login(url: str) -> tuple[str, str | None]:
    """An http(s) address without its login, and the login; other addresses as they are."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, None
    login, at, host = parts.netloc.rpartition("@")
    if not at or parts.scheme.lower() not in _PORTS:
        return url, None
    return urlunsplit(parts._replace(netloc=host)), login or None


def _expanded(part: str) -> str:
    part = unquote(part)
    if not part.startswith("$"):
        return part
    value = os.environ.get(part[1:])
    if value is None:
        raise NoLogin(f"the login names ${part[1:]}, which is not set in the environment")
    return value


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)
