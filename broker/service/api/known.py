"""Counts the duplicates among published documents, for the publisher's information.

In: documents, before they are accepted. Out: how many of them the broker has already, in its state
or in the backlog. The engine decides later which documents it drops, so this does not wait for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from broker.documents.admitted import document_key
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.state.store import DatabaseError

_MOST = 200_000
"""The largest number of documents in the backlog whose ids are kept in memory."""


def keys_of(stream: str, documents: Sequence[Posted]) -> list[int | None]:
    """The keys by which documents of a stream are identified; None for one without an id."""
    return [
        None if document.id is None else document_key(document.source_in(stream), document.id)
        for document in documents
    ]


class Known:
    """The keys of documents in the backlog. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backlog: OrderedDict[int, int] = OrderedDict()
        """Key and number of documents accepted here that the engine has not committed yet."""

    def repeated(
        self, core: Core, keys: Sequence[int | None], documents: Sequence[Posted]
    ) -> list[bool]:
        """Which of the documents with these keys are duplicates, before they are accepted.

        Documents without an id are new, and a revision is no duplicate.
        """
        named = [key for key in keys if key is not None]
        if not named:
            return [False] * len(keys)
        # The backlog first: documents committed in between are then found in the state.
        known = self._in_backlog(core, named)
        known |= _stored(core, named)
        found = []
        for key, document in zip(keys, documents, strict=True):
            found.append(key in known and not document.revision)
            if key is not None:
                known.add(key)  # the same id may come twice at once
        return found

    def accepted(self, keys: Sequence[int | None], first: int) -> None:
        """Add the keys of accepted documents, whose numbers begin at `first`."""
        with self._lock:
            for number, key in enumerate(keys, first):
                if key is not None:
                    self._backlog[key] = number
                    self._backlog.move_to_end(key)
            while len(self._backlog) > _MOST:
                self._backlog.popitem(last=False)

    def _in_backlog(self, core: Core, keys: Sequence[int]) -> set[int]:
        with self._lock:
            while self._backlog and next(iter(self._backlog.values())) <= core.position:
                self._backlog.popitem(last=False)
            return {key for key in keys if key in self._backlog}


def _stored(core: Core, keys: Sequence[int]) -> set[int]:
    """The keys of documents, or of identities of expired ones, in the state."""
    with suppress(DatabaseError):
        return core.engine.admission.committed_keys(keys)
    return set()
