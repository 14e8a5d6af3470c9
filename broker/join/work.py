"""A search while it runs: what ends it from another thread, and what it is working on.

A search that takes too long or too much memory, or that somebody waits for, is stopped (`Stopped`):
its transaction is rolled back. A single document is then searched again with care: in parts of the
queries, each of which is entered before its work begins (`Care`), until the query is found with
which it does not end. That pair is set aside, as one that is over its budget.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from xscl.interruption import PENDING

DEATHS = 2
"""After so many deaths of the process at one query and one document, that pair is set aside."""

_PARTS = 32
"""The parts into which queries are divided whose search together did not end."""

Group = tuple[str, str]
"""Queries that are searched together: the ids of the first and of the last."""


class Stopped(Exception):
    """A search was ended by another thread; `group` is what it worked on, None for all queries."""

    group: Group | None = None


class Cancelled(Stopped):
    """Somebody else needs the engine; nothing is wrong with the search."""


class Overdue(Stopped):
    """It took more time or memory than it may; the message says which, as the end of a sentence."""


class Tried(Overdue):
    """A search with some of the queries came to its end, and is undone."""


class _Range(NamedTuple):
    """Of a document's `among` queries the first `passes` end, and the first `fails` do not; -1: not
    known. `tried` are searched next."""

    passes: int
    fails: int
    among: int

    @property
    def tried(self) -> int:
        return (self.passes + self.fails) // 2


class Care:
    """What is known about the search of one document that did not end.

    `name` gives the id by which a canonical query, given by its number, is known also after a
    restart. `aside` are the queries that are set aside at the document, with the reason; `suspects`
    those that were at others, and are searched by themselves.

    A search may need too much where it works for all queries: what they need together is too much.
    Then trials with the first half of them, and so on, find the one with which it becomes too much.
    `hopeless` says why a document does not get through without any query either.
    """

    def __init__(self, suspects: Collection[str] = ()) -> None:
        self.aside: dict[str, str] = {}
        self.hopeless: str | None = None
        self._names: list[str] = []
        self._range: _Range | None = None
        self._why: str | None = None
        """Why trials are to begin, or have begun."""
        self._outside = 0
        """Deaths where no query was worked for by itself, since the last trial."""
        self._beyond: frozenset[str] = frozenset()
        """The queries that are left out in a trial."""
        self._suspects = suspects
        self._divided: set[Group] = set()
        self._deaths: Counter[Group] = Counter()

    def know(self, names: Iterable[str]) -> None:
        """Learn which queries there are, before they are searched."""
        self._names = [name for name in names if name not in self.aside]
        count = len(self._names)
        if self._why is not None and (self._range is None or self._range.among != count):
            self._range = _Range(-1, count, count) if count else None
        first = count if self._range is None else self._range.tried
        self._beyond = frozenset(self._names[first:])

    def without(self) -> dict[str, str]:
        """The queries that are not searched, with the reason."""
        return dict.fromkeys(self._beyond, "it is tried without it") | self.aside

    def end(self) -> None:
        """Raises Tried at the end of a trial."""
        if self._range is not None:
            raise Tried("it was a trial")

    def _narrowed(self, passes: bool) -> bool:
        """Learn how a trial came out; whether the next search will be another."""
        assert self._range is not None
        assert self._why is not None
        self._outside = 0
        tried = self._range.tried
        now = self._range._replace(**{"passes" if passes else "fails": tried})
        if not now.fails:
            self._give_up()
            return False
        self._range = now
        if now.fails - now.passes == 1:
            self.aside[self._names[now.fails - 1]] = self._why
            self._range = self._why = None
        return True

    def _give_up(self) -> None:
        self.hopeless = f"without any query, {self._why}"
        self._range = self._why = None

    def parts(
        self, numbers: Iterable[int], name: Callable[[int], str]
    ) -> Iterator[tuple[Group, list[int]]]:
        """Queries in the parts in which they are searched, without those that are set aside."""
        left: list[int] = []
        pending: list[list[int]] = []
        for number in numbers:
            if name(number) in self.aside or name(number) in self._beyond:
                continue
            if name(number) in self._suspects:
                pending.append([number])
            else:
                left.append(number)
        if left:
            pending.insert(0, left)
        while pending:
            part = pending.pop()
            group = (name(part[0]), name(part[-1]))
            if group in self._divided and len(part) > 1:
                size = -(-len(part) // _PARTS)
                pending += [part[at : at + size] for at in range(0, len(part), size)][::-1]
            else:
                yield group, part

    def stopped(self, why: Stopped) -> bool:
        """Learn that a search was stopped; whether the next one will be another."""
        group = why.group
        if group is None:
            if self._range is not None:
                return self._narrowed(isinstance(why, Tried))
            self._why = str(why)
            return bool(self._names)
        if group[0] == group[1]:
            self.aside[group[0]] = str(why)
        else:
            self._divided.add(group)
        return True

    def died(self, group: Group | None) -> None:
        """Learn that the process died in the search of a group, or (None) of all."""
        if group is None:
            self._outside += 1
            if self._outside < DEATHS:  # it may have been killed for another reason
                return
            self._outside = 0
            if self._range is None:
                self._why = self._why or f"the service died {DEATHS} times while it searched"
            elif not self._range.tried:
                self._give_up()
            else:
                self._range = self._range._replace(fails=self._range.tried)
            return
        if group[0] != group[1]:
            self._divided.add(group)
            return
        self._deaths[group] += 1
        if self._deaths[group] >= DEATHS:
            self.aside[group[0]] = f"the service died {DEATHS} times while it searched for it"

    def data(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "aside": self.aside,
            "divided": sorted(self._divided),
            "deaths": [[*group, count] for group, count in self._deaths.items()],
            "outside": self._outside,
            "range": self._range,
            "why": self._why,
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Care:
        """Made again of its data."""
        care = cls()
        care.aside = dict(data["aside"])
        care._divided = {(first, last) for first, last in data["divided"]}
        care._deaths.update({(first, last): count for first, last, count in data["deaths"]})
        care._why = data.get("why")
        care._outside = int(data.get("outside", 0))
        found = data.get("range")
        care._range = _Range(*found) if found and care._why else None
        return care


class Work:
    """The search of one engine.

    `care` is set while a document is searched with care. `entered` is then called with each group
    before its work begins, and with None behind it. `count` grows with each search, and with each
    other group.
    """

    def __init__(self) -> None:
        self.care: Care | None = None
        self.entered: Callable[[Group | None], object] = lambda group: None
        self.group: Group | None = None
        self._last: Group | None = None
        self.count = 0
        self.thread: int | None = None
        """The thread that searches now."""
        self._interrupt: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    @contextmanager
    def searching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """A block that can be stopped; `interrupt` ends a statement of SQL. If it was stopped, that
        is what it raises, whatever came of it within."""
        me = threading.get_ident()
        with self._lock:
            self._interrupt = interrupt
            self.thread = me
            self.count += 1
            self.group = self._last = None
        try:
            yield
        except Exception as error:
            stopped = PENDING.get(me, error)
            if stopped is error and isinstance(stopped, Stopped) and me not in PENDING:
                stopped.group = self.group
            if stopped is error:
                raise
            raise stopped from error
        finally:
            with self._lock:
                self.thread = None
                PENDING.pop(me, None)

    def stop(self, why: Stopped, *, late: bool = False) -> bool:
        """End the search that runs now, if there is one. `late`: for the time that it takes, for
        which there is no limit to what many queries take together if each has been within it."""
        with self._lock:
            why.group = self.group
            if self.thread is None or (late and self.care is not None and why.group is None):
                return False
            PENDING.setdefault(self.thread, why)
            self._interrupt()
            return True

    @contextmanager
    def still(self) -> Iterator[int | None]:
        """A block during which the search does not end; yields its thread, None if there is
        none."""
        with self._lock:
            yield self.thread

    def insist(self) -> None:
        """Interrupt once more if the search was stopped, as it may have begun a statement since."""
        with self._lock:
            if self.thread in PENDING:
                self._interrupt()

    @contextmanager
    def on(self, group: Group) -> Iterator[None]:
        """A block that works for some queries alone. After an exception they are still known."""
        self.enter(group)
        yield
        self.leave()

    def enter(self, group: Group) -> None:
        """Begin to work for some queries alone, or go on with it."""
        if group == self.group:
            return
        if group != self._last:
            self._last = group
            self.count += 1
        self.group = group
        self.entered(group)

    def leave(self) -> None:
        """Work for all queries again."""
        self.group = None
        self.entered(None)

    def parts(
        self, numbers: Sequence[int], name: Callable[[int], str]
    ) -> Iterator[tuple[Group, list[int]]]:
        """The parts of queries in which they are searched with care."""
        assert self.care is not None
        return self.care.parts(numbers, name)
