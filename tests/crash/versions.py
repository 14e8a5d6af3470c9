"""Determines which version of an item each document has met, from the matches of certain queries.

A revision has no number of its own: it takes the item's, and counts for documents that come after
it. So where it took effect is read off the matches of queries that stand all the time; that this
place is a possible one is looked at here, and that all other matches agree with it in `verdict.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.crash.actors import Accepted
from tests.crash.notes import Past
from tests.crash.queries import MET
from tests.crash.world import Doc, World

Name = tuple[str, str]


class Versions:
    """`numbers` are those of all documents, `log` the matches. AssertionError for what cannot
    be."""

    def __init__(
        self,
        world: World,
        accepted: Accepted,
        numbers: Mapping[Name, int],
        log: Iterable[Mapping[str, Any]],
    ) -> None:
        self._shown = world.versions
        self._met: dict[Name, dict[int, int]] = {name: {} for name in self._shown}
        """By item: the version that the document of a number has met."""
        self._first: dict[Name, int] = {}
        names = {id: (source, id) for source, id in numbers}
        for delivered in log:
            if delivered["query"] in MET:
                item, other = (names[part["id"]] for part in delivered["documents"])
                (text,) = delivered["values"]["g"]
                self._met[item][numbers[other]] = int(text.removeprefix("v"))
        order = sorted((number, name) for name, number in numbers.items())
        for name, met in self._met.items():
            if name in numbers:
                self._begin(name, numbers[name])
                self._possible(name, numbers[name], met, accepted, order)

    def _begin(self, name: Name, number: int) -> None:
        """The first version of an item."""
        met = self._met[name]
        before = {version for other, version in met.items() if other < number}
        assert len(before) <= 1, f"{name} came in several versions: {before}"
        later = [met[other] for other in sorted(met)]
        self._first[name] = next(iter(before or later), max(self._shown[name]))

    def _possible(
        self,
        name: Name,
        number: int,
        met: Mapping[int, int],
        accepted: Accepted,
        order: list[tuple[int, Name]],
    ) -> None:
        """Versions only grow; none is met before it is shown; and what was shown together with a
        new item of the feed, or before it, is met by all that come after that item."""
        shown, seen, least = self._shown[name], self._first[name], 0
        for other, document in order:
            same_feed = document[0] == name[0] and _serial(document) > _serial(name)
            if same_feed and document in self._shown:
                moment = min(each.moment for each in self._shown[document].values())
                least = max([least, *(v for v, each in shown.items() if each.moment <= moment)])
            version = met.get(other)
            if version is None or other < number:
                continue
            told = f"{name} met by {document} in version {version}"
            assert version >= seen, f"{told}, before in {seen}"
            assert version >= least, f"{told}, {least} was there"
            accepted_at = accepted.moments.get(document)
            if accepted_at is not None:
                assert shown[version].moment < accepted_at, f"{told}, before that was shown"
            seen = version

    def first(self, name: Name) -> Doc:
        """The first version of an item."""
        return self._shown[name][self._first[name]].doc

    def met(self, name: Name, number: int) -> Doc | None:
        """The version of the item that a document has met, if any."""
        version = self._met[name].get(number)
        return None if version is None else self._shown[name][version].doc

    def at(self, name: Name, past: Past) -> Doc:
        """The version of an item in history."""
        met, shown, text = self._met[name], self._shown[name], past.items[name]
        # It may have come in an earlier version than the first that any document has met.
        low = max((v for other, v in met.items() if other < past.doc), default=min(shown))
        high = min((v for other, v in met.items() if other >= past.doc), default=max(shown))
        (found,) = [version for version, each in shown.items() if each.doc.xml == text]
        assert low <= found <= high, f"{name} in version {found} at {past}, not {low} to {high}"
        return shown[found].doc

    def edited(self) -> int:
        """The number of items that occurred in several versions."""
        return sum(
            max(met.values(), default=0) > self._first[name] for name, met in self._met.items()
        )


def _serial(name: Name) -> int:
    """The order in which the world has created documents."""
    return int(name[1][1:])
