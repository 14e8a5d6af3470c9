"""The subscriptions of a broker: their texts in the store, compiled in the catalog, their edges in
stage 1.

Of a paused or suspended subscription memory has its id and text only.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from broker.query.canonical import Subscription
from broker.query.catalog import Catalog, Query
from broker.query.prepared import Compiled
from broker.registered import Status, Subscribed, Suspension
from broker.state.store import Store
from broker.subscriptions.forms import Forms, Refused
from broker.subscriptions.gaps import Gaps, read_gaps
from broker.subscriptions.published_streams import Streams
from broker.subscriptions.stage1 import Stage1
from xscl.growth import MANY, freeze, growing, thaw

_CHANGES = "changes"
_CHUNK = 10_000
"""Rows read from the store at once."""
_FEW = 12
"""Rows that are written one by one."""


@dataclass(frozen=True, slots=True)
class Halted:
    """A subscription that is not active: it takes no memory but for its text and literals. The
    stream that it publishes stays reserved, so that it can always be resumed."""

    number: int
    query: Compiled | Refused

    @property
    def id(self) -> str:
        return self.query.id

    @property
    def text(self) -> str:
        return self.query.text

    @property
    def publish(self) -> str | None:
        return self.query.publish

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.query.reads)

    @property
    def compiled(self) -> Compiled:
        """The query. Raises `XsclError` for one that the checks refuse now."""
        if isinstance(self.query, Refused):
            raise self.query.error
        return self.query


class Registry:
    """Registers, halts and removes queries, and stores from which document on each matches.

    A transaction that fails undoes its changes in memory. `gone` is called with the ids and
    the numbers of removed subscriptions, in the transaction that removes them. `changes` is how
    often subscriptions were changed.
    """

    def __init__(
        self, store: Store, gone: Callable[[Sequence[str], Sequence[int]], object]
    ) -> None:
        self.store = store
        self._gone = gone
        self.catalog = Catalog()
        self.stage1 = Stage1(self.catalog.edges)
        self.gaps = Gaps(store)
        self.forms = Forms(store)
        self.halted: dict[str, Halted] = {}
        self._frozen = False
        """Whether subscriptions were frozen for the garbage collector."""
        self._unfrozen = 0
        """How many were registered since."""
        self._last = 0
        """The number of the latest subscription; numbers give the order of registration."""
        self.unreported: list[tuple[int, Suspension]] = []
        """Suspensions that `take_suspensions` has not returned, with the subscriptions' numbers."""
        self._reporting: list[int] = []
        self.changes = 0
        self._refused: list[Halted] = []
        """Those that were active, and are not since the checks refuse them."""
        if not store.fresh:
            self._restore()

    def _restore(self) -> None:
        self.changes = self.store.number(_CHANGES, 0)
        count = self.store.count("SELECT count(*) FROM subscriptions")
        gaps = read_gaps(self.store)
        self.forms.load()
        self.unreported = self.gaps.unreported()
        with growing(count):
            variables = self.store.chunks("SELECT definition, id FROM variables", _CHUNK)
            for chunk in variables:
                self.catalog.variables.load(chunk)
            for chunk in self.store.chunks(
                "SELECT number, id, text, shape, literals, publish, first_doc"
                " FROM subscriptions ORDER BY number",
                _CHUNK,
            ):
                active: list[Query] = []
                queries = self.forms.compiled(chunk)
                numbers, *_, firsts = zip(*chunk, strict=True)
                for number, query, first_doc in zip(numbers, queries, firsts, strict=True):
                    counts_from = gaps[number][-1].to_doc if number in gaps else first_doc
                    if counts_from is None:
                        self._hold(Halted(number, query))
                    elif isinstance(query, Refused):
                        self._refused.append(Halted(number, query))
                        self._hold(self._refused[-1])
                    else:
                        active.append((number, query, counts_from))
                self._last = chunk[-1][0]
                self.catalog.add_all(active)
                self.stage1.synchronize()
            self.catalog.variables.loaded()
            self._freeze(len(self.catalog.subscriptions))
        with self.store.transaction():
            self._write_variables()
            self.forms.loaded()

    def known(self, id: str) -> Subscription | Halted | None:
        """The subscription of an id, active or not."""
        found = self.halted.get(id) or self.catalog.subscriptions.get(id)
        return None if found is None or found.number < 0 else found

    def known_or_fail(self, id: str) -> Subscription | Halted:
        """The same; KeyError if there is none."""
        found = self.known(id)
        if found is None:
            raise KeyError(id)
        return found

    def fresh(self, compiled: Sequence[Compiled]) -> list[Compiled]:
        """The queries that are not registered with the same canonical text."""
        return [
            query
            for query in compiled
            if (known := self.known(query.id)) is None or known.text != query.text
        ]

    def texts(self) -> dict[str, str]:
        """Ids and canonical texts of all subscriptions, those that are not active too."""
        active = {id: s.text for id, s in self.catalog.subscriptions.items() if s.number > 0}
        return active | {id: halted.text for id, halted in self.halted.items()}

    def subscribe(
        self, compiled: Sequence[Compiled], first_doc: int, now: int | None = None
    ) -> list[Subscribed]:
        """Register queries from document number `first_doc` on, all or none. Raises `XsclError`.

        One that is registered with the same canonical text goes on as it is, paused or not; a
        changed text under a known id is a new subscription in its place.
        """
        fresh = self.fresh(compiled)
        self.check(fresh)
        replaced = {query.id: None for query in fresh if self.known(query.id) is not None}
        new = {query.id for query in fresh}
        with growing(len(fresh)):
            with self._changing():
                self._withdraw([*replaced])
                first, self._last = self._last + 1, self._last + len(fresh)
                self._enter([(n, query, first_doc) for n, query in enumerate(fresh, first)])
                self.stage1.synchronize()
                self._write([self.catalog.subscriptions[query.id] for query in fresh], now)
            self._freeze(len(fresh))
        return [
            Subscribed(
                query.id,
                self.known_or_fail(query.id).number,
                "replaced" if query.id in replaced else "new" if query.id in new else "unchanged",
            )
            for query in compiled
        ]

    def _freeze(self, more: int) -> None:
        """So many subscriptions have come. Freeze very many for the garbage collector: else each of
        its full collections would scan them all in vain."""
        self._unfrozen += more
        if self._unfrozen >= MANY:
            self._frozen, self._unfrozen = True, 0
            freeze()

    def close(self) -> None:
        """Let the garbage collector have what was frozen."""
        if self._frozen:
            thaw()

    def check(self, fresh: Sequence[Compiled]) -> None:
        """Whether the streams that new queries publish go with those there. Raises `XsclError`."""
        if any(query.publish is not None for query in fresh):
            halted = {h.publish: h.id for h in self.halted.values() if h.publish is not None}
            Streams(ChainMap(self.catalog.published, halted), self._reads).check(fresh)

    def _reads(self, id: str) -> set[str]:
        found = self.halted.get(id) or self.catalog.subscriptions[id]
        return set(found.reads)

    def unsubscribe(self, ids: Sequence[str]) -> None:
        """Remove subscriptions, all or none. KeyError if there is none of an id."""
        with growing(len(ids)), self._changing():
            self._withdraw([*dict.fromkeys(ids)])
            self.stage1.synchronize()

    # -- active or not -----------------------------------------------------------------------

    def halt(
        self, ids: Sequence[str], status: Status, reason: str, first_doc: int, now: int | None
    ) -> list[str]:
        """Pause or suspend subscriptions, all or none: they see no documents from number
        `first_doc` on. Those that are not active stay as they are. Returns the ids of those that
        were active. KeyError if there is none of an id."""
        known = [self.known_or_fail(id) for id in dict.fromkeys(ids)]
        active = [each for each in known if isinstance(each, Subscription)]
        if not active:
            return []
        with growing(len(active)), self._changing():
            halted = [Halted(each.number, each.compiled) for each in active]
            self._leave([each.id for each in active])
            for each in halted:
                self._hold(each)
            self.gaps.open([each.number for each in halted], status, reason, first_doc, now)
            self.stage1.synchronize()
            if status == "suspended":
                self.store.on_rollback(partial(setattr, self, "unreported", [*self.unreported]))
                self.unreported += [
                    (each.number, Suspension(each.id, reason, now)) for each in halted
                ]
        return [each.id for each in halted]

    def suspend_refused(self, first_doc: int) -> None:
        """Suspend the stored subscriptions that the checks refuse now, which they did not when they
        were registered: they see no documents from number `first_doc` on."""
        refused, self._refused = self._refused, []
        if refused:
            with self._changing():
                self.store.on_rollback(partial(setattr, self, "unreported", [*self.unreported]))
                for each in refused:
                    assert isinstance(each.query, Refused)
                    why = each.query.error.diagnostics[0]
                    reason = f"this version refuses it: {why.message} ({why.code}, at {why.span})"
                    self.gaps.open([each.number], "suspended", reason, first_doc, None)
                    self.unreported.append((each.number, Suspension(each.id, reason, None)))

    def resume(self, ids: Sequence[str], first_doc: int, now: int | None) -> list[str]:
        """Make subscriptions active again, from document number `first_doc` on, all or none. Those
        that are active stay as they are. Returns the ids of those that were not. KeyError if there
        is none of an id."""
        known = [self.known_or_fail(id) for id in dict.fromkeys(ids)]
        halted = [each for each in known if isinstance(each, Halted)]
        if not halted:
            return []
        with growing(len(halted)), self._changing():
            for each in halted:
                self._let_go(each)
            self._enter([(each.number, each.compiled, first_doc) for each in halted])
            self.gaps.close([each.number for each in halted], first_doc, now)
            self.stage1.synchronize()
        return [each.id for each in halted]

    def synchronize(self) -> None:
        """Have stage 1 witness what others than subscriptions need of it now."""
        with self.store.transaction():
            self.store.on_rollback(self.stage1.synchronize)
            self.stage1.synchronize()
            self._write_variables()

    def count(self) -> int:
        """How many subscriptions there are, active or not."""
        return len(self.halted) + self.catalog.registered()

    def take_suspensions(self) -> list[Suspension]:
        """The suspensions since the last call. Calling it confirms that those of the last call were
        reported to their owners; a restart returns unconfirmed ones again."""
        if self._reporting:
            with self.store.transaction():
                self.gaps.mark_reported(self._reporting)
            self._reporting = []
        taken, self.unreported = self.unreported, []
        self._reporting = [number for number, _ in taken]
        return [suspension for _, suspension in taken]

    # -- steps of a change, each of which can be taken back ------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self.store.transaction():
            self.store.on_rollback(self.stage1.synchronize)
            self.store.on_rollback(partial(setattr, self, "_last", self._last))
            self.store.on_rollback(partial(setattr, self, "changes", self.changes))
            self.changes += 1
            self.store.set_numbers(**{_CHANGES: self.changes})
            yield
            self._write_variables()
            self._forget_variables()

    def _enter(self, queries: Sequence[Query]) -> None:
        entered: list[str] = []
        self.store.on_rollback(partial(self._drop, entered))
        self.catalog.add_all(queries, entered)

    def _drop(self, ids: list[str]) -> None:
        for id in reversed(ids):
            self.catalog.remove(id)

    def _leave(self, ids: Sequence[str]) -> None:
        left: list[Subscription] = []
        self.store.on_rollback(partial(self._return, left))
        for id in ids:  # one by one: if one fails, the rollback puts back those removed before it
            left.append(self.catalog.remove(id))

    def _return(self, left: list[Subscription]) -> None:
        for gone in left:
            self.catalog.add(gone.compiled, gone.number, gone.first_doc)

    def _hold(self, halted: Halted) -> None:
        self.store.on_rollback(partial(self._let_go, halted))
        self.halted[halted.id] = halted

    def _let_go(self, halted: Halted) -> None:
        self.store.on_rollback(partial(self._hold, halted))
        del self.halted[halted.id]

    def _withdraw(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        numbers = [self.known_or_fail(id).number for id in ids]
        self._leave([id for id in ids if id not in self.halted])
        for id in ids:
            if id in self.halted:
                self._let_go(self.halted[id])
        self.store.delete("subscriptions", "number", numbers)
        self.gaps.forget(numbers)
        self._gone(ids, numbers)

    def _write(self, rows: Sequence[Subscription], now: int | None) -> None:
        self._insert(
            "subscriptions",
            {
                "number": (pa.int64(), [s.number for s in rows]),
                "id": (pa.string(), [s.id for s in rows]),
                "text": (pa.string(), [s.text for s in rows]),
                "first_doc": (pa.int64(), [s.first_doc for s in rows]),
                "since": (pa.int64(), [now] * len(rows)),
                **self.forms.columns(rows),
            },
        )
        self.forms.write()

    def _write_variables(self) -> None:
        """Store the ids of new variables, so that a restart does not use them again."""
        new, self.catalog.variables.new = self.catalog.variables.new, []
        self.store.on_rollback(partial(self._unwritten, new))
        self._insert(
            "variables",
            {
                "id": (pa.int32(), [number for number, _ in new]),
                "definition": (pa.string(), [definition for _, definition in new]),
            },
        )

    def _unwritten(self, variables: list[tuple[int, str]]) -> None:
        """After a rollback: the ids stay in use, and are stored with the next change."""
        self.catalog.variables.new = variables + self.catalog.variables.new

    def _forget_variables(self) -> None:
        variables = self.catalog.variables
        gone = variables.forget()
        if gone:
            self.store.on_rollback(partial(variables.recall, gone))
            self.store.delete("variables", "id", gone)

    def _insert(self, table: str, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> None:
        """Append rows. Planning a scan of Arrow data costs as much as a dozen rows of values."""
        rows = list(zip(*(values for _, values in columns.values()), strict=True))
        if len(rows) > _FEW:
            arrays = {name: pa.array(values, kind) for name, (kind, values) in columns.items()}
            self.store.insert(table, pa.table(arrays))
        elif rows:
            row = f"({', '.join('?' * len(columns))})"
            self.store.run(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * len(rows))}",
                [value for each in rows for value in each],
            )
