"""One-time codes, and the sessions of browsers that they begin.

In: what names a token, then the code that was made for it, then the cookie of a browser.
Out: a `Session`, which stands for that token. A code can be used once, within two minutes, and is
held in memory only. Sessions are in a file, so that a restart ends none, and the file holds no
secret: of each session only a hash of its cookie. A session ends after a week, when it is signed
out, and when its token is no longer the one that it was begun with.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import structlog

from broker.state.disk import write_private

_log = structlog.get_logger(__name__)

CODE_LASTS = 120
"""Seconds in which a code can be used."""

LASTS = 7 * 86_400
"""Seconds for which a session lasts."""

MOST = 1_000
"""Sessions, and codes that wait; beyond, the oldest goes."""

_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""What codes are made of: no letters that look like others."""
_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in. `key`: the hash of its cookie; `identity`: what names
    the token for which it stands, without telling it; `until`: seconds since 1970."""

    key: str
    identity: str
    until: float


def fingerprint(token: str) -> str:
    """What names a token without telling it."""
    return sha256(b"token:" + token.encode("utf-8", "surrogatepass")).hexdigest()


def csrf(cookie: str) -> str:
    """What a page sends with each change: other sites can neither read nor make it."""
    return hmac.digest(cookie.encode("utf-8", "surrogatepass"), b"csrf", "sha256").hex()


class Sessions:
    """The codes and sessions of a service, kept in the file at `path`. Thread-safe.

    `clock` returns seconds since 1970. A file that cannot be read is begun anew, as everybody can
    sign in again.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._codes: dict[str, tuple[str, float]] = {}
        self._sessions = {each.key: each for each in _read(path)}

    def new_code(self, identity: str) -> tuple[str, float]:
        """A code for a token, as it is shown, and until when it can be used."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        until = self._clock() + CODE_LASTS
        with self._lock:
            self._codes[code] = (identity, until)
            _shorten(self._codes)
        return "-".join(code[at : at + 4] for at in range(0, _LENGTH, 4)), until

    def begin(self, code: str) -> str | None:
        """Use a code: the cookie of the session that begins, None for a code that is unknown, used
        or too old. Case, blanks and hyphens do not count."""
        plain = "".join(letter for letter in code.upper() if letter in _LETTERS)
        now = self._clock()
        with self._lock:
            identity, until = self._codes.pop(plain, ("", 0.0))
            if until < now:
                return None
            cookie = secrets.token_urlsafe(32)
            session = Session(_key(cookie), identity, now + LASTS)
            self._sessions[session.key] = session
            self._write(now)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie, while it lasts."""
        found = self._sessions.get(_key(cookie))
        return found if found is not None and found.until > self._clock() else None

    def lasts(self, session: Session) -> bool:
        """Whether a session has neither ended nor been signed out."""
        return session.key in self._sessions and session.until > self._clock()

    def end(self, session: Session) -> None:
        """Sign out."""
        with self._lock:
            self._sessions.pop(session.key, None)
            self._write(self._clock())

    def keep(self, known: Callable[[str], bool]) -> None:
        """Forget the sessions of all tokens but those that are known."""
        with self._lock:
            gone = [each.key for each in self._sessions.values() if not known(each.identity)]
            for key in gone:
                del self._sessions[key]
            if gone:
                self._write(self._clock())

    def _write(self, now: float) -> None:
        for key in [each.key for each in self._sessions.values() if each.until <= now]:
            del self._sessions[key]
        _shorten(self._sessions)
        try:
            write_private(self._path, json.dumps([*map(asdict, self._sessions.values())]))
        except OSError as error:  # the disk is full: the session lasts until the next restart
            _log.warning("sessions.not_written", error=str(error))


def _key(cookie: str) -> str:
    return sha256(b"session:" + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _shorten(entries: dict[str, tuple[str, float]] | dict[str, Session]) -> None:
    while len(entries) > MOST:
        del entries[next(iter(entries))]


def _read(path: Path) -> list[Session]:
    try:
        return [Session(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        _log.warning("sessions.not_read", error=str(error))
        return []
