"""Which of the documents that somebody publishes are known already, and so add nothing.

In: documents, before they are accepted. Out: how many of them the broker has, or will have once
what waits is matched. It is reported to the publisher and decides nothing: whether a document is
dropped the engine decides when its turn comes. So nobody waits for the engine here.
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
"""Documents remembered that wait to be matched."""


def keys_of(stream: str, documents: Sequence[Posted]) -> list[int | None]:
    """By which documents of a stream are known; None: they have no id."""
    return [
        None if each.id is None else document_key(each.source_in(stream), each.id)
        for each in documents
    ]


class Known:
    """What is known of documents by their ids. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, int] = OrderedDict()
        """Key and number of those accepted here that the engine has not committed yet."""

    def count(self, core: Core, keys: Sequence[int | None], documents: Sequence[Posted]) -> int:
        """How many documents of these keys add nothing. Ask before they are accepted.

        Documents without an id are new; a revision takes the place of one that is known.
        """
        named = [key for key in keys if key is not None]
        if not named:
            return 0
        # Those that wait first: what is committed meanwhile is then in the state.
        known = self._of_waiting(core, named)
        known |= _stored(core, named)
        count = 0
        for key, document in zip(keys, documents, strict=True):
            if key is not None:
                count += key in known and not document.revision
                known.add(key)  # the same id may come once more in one request
        return count

    def accepted(self, keys: Sequence[int | None], first: int) -> None:
        """Documents of these keys wait now, under numbers from `first` on."""
        with self._lock:
            for number, key in enumerate(keys, first):
                if key is not None:
                    self._waiting[key] = number
                    self._waiting.move_to_end(key)
            while len(self._waiting) > _MOST:
                self._waiting.popitem(last=False)

    def _of_waiting(self, core: Core, keys: Sequence[int]) -> set[int]:
        with self._lock:
            while self._waiting and next(iter(self._waiting.values())) <= core.position:
                self._waiting.popitem(last=False)
            return {key for key in keys if key in self._waiting}


def _stored(core: Core, keys: Sequence[int]) -> set[int]:
    """Those that the state holds, or remembers the identity of."""
    with suppress(DatabaseError):
        return core.engine.admission.committed_keys(keys)
    return set()
