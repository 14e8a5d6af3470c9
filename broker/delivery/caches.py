"""What the mailbox's writer remembers of its file, so that it need not look for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from broker.delivery.audiences import Audiences
from broker.delivery.documents import Documents
from broker.delivery.tables import Database


class Caches(NamedTuple):
    """The numbers of audiences and of documents, for transactions that may change their tables."""

    audiences: Audiences
    documents: Documents

    @contextmanager
    def changing(self, db: Database, *, counted: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction, `counted` or not; if it fails, nothing that it has stored is
        remembered."""
        with db.lock:
            try:
                with db.transaction(counted=counted) as tx:
                    yield tx
            except BaseException:
                self.audiences.forget_all()
                self.documents.forget_all()
                raise
