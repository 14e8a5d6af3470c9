"""Tokens, owners of subscriptions, and the log of changes, over their file.

In: the secrets that come with requests, and changes by operators. Out: identities. What decides
about requests is in memory; it changes with the file, and at once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from broker.service.access.change_log import ChangeLog
from broker.service.access.file import AccessFile
from broker.service.access.scopes import Identity, Quota, checked_scopes
from broker.service.core.errors import Conflict, Invalid, NotFound

FILE = "access.sqlite"
"""The name of the file in the state directory."""

_PREFIX = "broker_"
"""The beginning of each secret, by which people and scanners recognise it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is listed, without its secret. Times in microseconds; `former_until`: until
    when the secret from before the last rotation is taken too."""

    name: str
    scopes: tuple[str, ...]
    quota: Quota
    made: int
    rotated: int
    former_until: int | None
    subscriptions: int


@dataclass(slots=True)
class _Known:
    """A token in memory: the identities of its secret, and of the former one."""

    identity: Identity
    hash: bytes
    made: int
    rotated: int
    former: Identity | None = None
    former_hash: bytes | None = None
    former_until: int | None = None


class Access:
    """The tokens of a state. `now` returns microseconds since 1970. `on_end` is called, in any
    thread, when identities have ended; `log` has their changes. Raises AccessError for a file that
    cannot be used."""

    def __init__(self, state: Path, now: Callable[[], int]) -> None:
        self.on_end: Callable[[], object] = lambda: None
        self.claiming = threading.Lock()
        """Held while subscriptions are registered, from the check whose they are and how many."""
        self._lock = threading.RLock()
        self._now = now
        self._file = AccessFile(state / FILE)
        self.log = ChangeLog(self._file, now)
        self._tokens: dict[str, _Known] = {}
        self._by_hash: dict[bytes, tuple[Identity, int | None]] = {}
        self._owners: dict[str, str] = dict(
            self._file.rows("SELECT subscription, owner FROM owned")
        )
        self._owned: defaultdict[str, set[str]] = defaultdict(set)
        for id, owner in self._owners.items():
            self._owned[owner].add(id)
        for row in self._file.rows(
            "SELECT name, hash, former, former_until, scopes, quota, made, rotated FROM token"
        ):
            self._load(*row)

    def close(self) -> None:
        self._file.close()

    def backup(self, directory: Path) -> None:
        """Copy the file into a directory."""
        self._file.backup(directory / FILE)

    def _load(
        self,
        name: str,
        hash: bytes,
        former: bytes | None,
        former_until: int | None,
        scopes: str,
        quota: str,
        made: int,
        rotated: int,
    ) -> None:
        def identity() -> Identity:
            return Identity(name, frozenset(json.loads(scopes)), Quota(**json.loads(quota)))

        known = self._tokens[name] = _Known(identity(), hash, made, rotated)
        self._by_hash[hash] = known.identity, None
        if former is not None and former_until is not None and former_until > self._now():
            known.former, known.former_hash = identity(), former
            known.former_until = former_until
            self._by_hash[former] = known.former, former_until

    def _forget(self, name: str) -> None:
        """End the identities of a token."""
        known = self._tokens.pop(name)
        for identity, hash in ((known.identity, known.hash), (known.former, known.former_hash)):
            if identity is not None and hash is not None:
                identity.ended = True
                del self._by_hash[hash]

    # -- who it is -----------------------------------------------------------------------------

    def identity(self, secret: str) -> Identity | None:
        """The identity of a secret; None for one that is not known, or no longer."""
        return self._identity(_hash(secret)) if self._by_hash else None

    def key(self, identity: Identity) -> str:
        """What names the secret of a token's identity without telling it. Raises NotFound for one
        that has ended."""
        with self._lock:
            known = self._tokens.get(identity.name)
            if known is not None and identity is known.identity:
                return known.hash.hex()
            if known is not None and identity is known.former and known.former_hash is not None:
                return known.former_hash.hex()
        raise NotFound("token", identity.name)

    def by_key(self, key: str) -> Identity | None:
        """The identity of the secret that a key names, as `identity` of the secret itself."""
        try:
            return self._identity(bytes.fromhex(key))
        except ValueError:  # none of ours
            return None

    def _identity(self, hash: bytes) -> Identity | None:
        found = self._by_hash.get(hash)
        if found is None:
            return None
        identity, until = found
        if until is not None and until <= self._now():
            identity.ended = True
            return None
        return identity

    def goes_on(self, identity: Identity) -> bool:
        """Whether what was begun under an identity may go on."""
        known = self._tokens.get(identity.name)
        if known is not None and identity is known.former:
            until = known.former_until
            identity.ended = identity.ended or (until is not None and until <= self._now())
        return not identity.ended

    # -- tokens --------------------------------------------------------------------------------

    def all(self) -> list[Token]:
        """The tokens by name."""
        with self._lock:
            return [self._token(name) for name in sorted(self._tokens)]

    def get(self, name: str) -> Token:
        """Raises NotFound."""
        with self._lock:
            if name not in self._tokens:
                raise NotFound("token", name)
            return self._token(name)

    def _token(self, name: str) -> Token:
        known = self._tokens[name]
        until = known.former_until
        if until is not None and until <= self._now():
            until = None
        scopes, quota = tuple(sorted(known.identity.scopes)), known.identity.quota
        count = len(self._owned.get(name, ()))
        return Token(name, scopes, quota, known.made, known.rotated, until, count)

    def add(self, name: str, scopes: Iterable[str], quota: Quota) -> tuple[Token, str]:
        """Make a token; returns it with its secret, which is nowhere else. Raises Conflict for a
        name that is taken, Invalid for a scope that there is not."""
        with self._lock:
            if name in self._tokens:
                raise Conflict(
                    f"there is a token {name!r} already: change it, rotate it for another secret, "
                    "or revoke it first"
                )
            secret, now = _new_secret(), self._now()
            self._save(name, _hash(secret), None, None, _checked(scopes), quota, now, now)
            return self._token(name), secret

    def change(
        self, name: str, scopes: Iterable[str] | None = None, quota: Quota | None = None
    ) -> Token:
        """Give a token other scopes or another quota; its secret stays."""
        with self._lock:
            self.get(name)
            known = self._tokens[name]
            self._save(
                name,
                known.hash,
                known.former_hash,
                known.former_until,
                known.identity.scopes if scopes is None else _checked(scopes),
                known.identity.quota if quota is None else quota,
                known.made,
                known.rotated,
            )
            return self._token(name)

    def rotate(self, name: str, overlap: int = 0) -> tuple[Token, str]:
        """Give a token another secret; the former one is taken for `overlap` microseconds more."""
        with self._lock:
            self.get(name)
            known, now, secret = self._tokens[name], self._now(), _new_secret()
            former, until = (known.hash, now + overlap) if overlap else (None, None)
            scopes, quota = known.identity.scopes, known.identity.quota
            self._save(name, _hash(secret), former, until, scopes, quota, known.made, now)
            return self._token(name), secret

    def revoke(self, name: str) -> None:
        """End a token at once. Raises NotFound."""
        with self._lock:
            self.get(name)
            with self._file.transaction() as db:
                db.execute("DELETE FROM token WHERE name = ?", (name,))
            self._forget(name)
        self.on_end()

    def _save(
        self,
        name: str,
        hash: bytes,
        former: bytes | None,
        former_until: int | None,
        scopes: Collection[str],
        quota: Quota,
        made: int,
        rotated: int,
    ) -> None:
        written = json.dumps(sorted(scopes)), json.dumps(asdict(quota))
        row = name, hash, former, former_until, *written, made, rotated
        with self._file.transaction() as db:
            db.execute("INSERT OR REPLACE INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        if name in self._tokens:
            self._forget(name)
        self._load(*row)
        self.on_end()

    # -- what belongs to whom ------------------------------------------------------------------

    def owner(self, subscription: str | None) -> str:
        """The token whose subscription it is; "" for those of operators."""
        return self._owners.get(subscription or "", "")

    def owns(self, identity: Identity, subscription: str | None) -> bool:
        """Whether a subscription is an identity's own; an operator may touch any."""
        if identity.operates:
            return True
        return subscription is not None and self._owners.get(subscription) == identity.name

    def owned(self, owner: str, prefix: str = "", after: str = "") -> list[str]:
        """The ids of a token's subscriptions that begin with `prefix` and come after `after`."""
        with self._lock:
            found = [*self._owned.get(owner, ())]
        return sorted(id for id in found if id.startswith(prefix) and id > after)

    def owners(self) -> list[str]:
        """The tokens that have subscriptions, also those that were revoked."""
        with self._lock:
            return [owner for owner, ids in self._owned.items() if ids]

    @contextmanager
    def claimed(self, owner: str, ids: Collection[str]) -> Iterator[None]:
        """Let subscriptions belong to a token, if the block succeeds. `claiming` must be
        held. They do so before the block, since what they find may be read at once."""
        with self._lock:
            fresh = [id for id in ids if self._owners.get(id) != owner]
            with self._file.transaction() as db:
                db.executemany(
                    "INSERT OR REPLACE INTO owned VALUES (?, ?)", [(id, owner) for id in fresh]
                )
            for id in fresh:
                self._set_owner(id, owner)
        try:
            yield
        except BaseException:
            self.release(fresh)
            raise

    def _set_owner(self, id: str, owner: str | None) -> None:
        former = self._owners.pop(id, None)
        if former is not None:
            self._owned[former].discard(id)
        if owner is not None:
            self._owners[id] = owner
            self._owned[owner].add(id)

    def release(self, ids: Iterable[str]) -> None:
        """Let subscriptions belong to nobody, of which nothing is left."""
        with self._lock:
            ids = [id for id in ids if id in self._owners]
            if not ids:
                return
            with self._file.transaction() as db:
                db.executemany("DELETE FROM owned WHERE subscription = ?", [(id,) for id in ids])
            for id in ids:
                self._set_owner(id, None)

    def salt(self, subscription: str) -> str:
        """What the key of a subscription's feed depends on besides the service's token: another
        one after its owner's token was rotated. Empty for an operator's."""
        owner = self._owners.get(subscription, "")
        known = self._tokens.get(owner)
        return known.hash.hex() if known is not None else owner and secrets.token_hex(16)


def _checked(scopes: Iterable[str]) -> frozenset[str]:
    try:
        return checked_scopes(scopes)
    except ValueError as error:
        raise Invalid(str(error), "scopes") from None


def _new_secret() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
