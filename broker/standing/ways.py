"""The way of a document to the patterns that take it, made once for all documents of a layout.

What a document of a layout satisfies, which of its texts are read and who takes them is the same
for all of them, and mostly stage 1 has handed over the texts. So of such a document there is
nothing to find out: its rows are made, and handed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.join.candidates import Candidate, Found
from broker.join.one_block import Satisfied, Tapped
from broker.pattern.instances import Row
from broker.results.contents import Contents
from broker.standing.live import Group
from broker.standing.memory import Memory
from broker.standing.tap_index import Tap
from broker.standing.taps import Plain, Written, nodes_of, values_of
from broker.state.pattern_tables import Texts
from broker.state.stored_documents import StoredDocument
from xscl.interruption import PENDING, check

_KNOWN = 10_000


_Way = Sequence[tuple[Tap, Plain]]
"""Taps, each with what is read for it."""


class Ways:
    """The ways by layout, as long as neither patterns nor their groups change."""

    def __init__(self, memory: Memory, contents: Contents) -> None:
        self._memory = memory
        self._contents = contents
        self._known: dict[Satisfied, _Way | None] = {}
        self._version: object = None

    def take(self, tapped: Sequence[Tapped], seen: Mapping[int, int]) -> list[Found]:
        """Take documents of taps; the candidates of those are left for which more has to be found
        out. `seen` is the highest time when a document came, of those that came in."""
        known = self._known
        version = self._memory.members.taps.version
        if version is not self._version or len(known) > _KNOWN:
            known.clear()
            self._version = version
        left: list[Found] = []
        part = self._contents.part
        for doc, satisfied in tapped:
            way = known[satisfied] if satisfied in known else self._find(satisfied)
            there = None if way is None else part(doc)
            if way is None or there is None or not self._go(way, *there, seen):
                left += [(of, Candidate((doc,), chosen)) for of, chosen in satisfied.taps]
        return left

    def _find(self, satisfied: Satisfied) -> _Way | None:
        """The way of the documents of a layout; None where they have to be looked at one by one."""
        way = None if self._memory.owns is not None else self._way(satisfied)
        if satisfied.again:
            self._known[satisfied] = way
        return way

    def _way(self, satisfied: Satisfied) -> _Way | None:
        found: list[tuple[Tap, Plain]] = []
        of_query = self._memory.members.taps.of_query
        for canonical, chosen in satisfied.taps:
            nodes = chosen.nodes
            for tap in of_query(canonical.number):
                plain = tap.reader.plain(nodes)
                if plain is None or tap.groups or tap.alone:
                    return None
                found.append((tap, plain))
        return found

    def _go(
        self,
        way: _Way,
        of: StoredDocument,
        texts: Mapping[int, str],
        seen: Mapping[int, int],
    ) -> bool:
        """Hand over the rows of a document; False, and nothing, where a text is not known. Taps
        with the same variables and paths have one row: it says nothing of what else they ask. This
        runs for each document that is taken, so it calls few functions."""
        reads = _reads(way, texts)
        if reads is None:
            return False
        if PENDING:
            check()
        memory = self._memory
        stored = memory.rows
        doc, base, key, _, id_of, _, start, end, _, _, _ = of
        late = seen.get(doc) if base == doc else None
        old = late is not None and end < late
        made: dict[Plain, dict[Written, Row]] = {}
        rows: dict[Written, Row] = {}
        before: Plain | None = None
        last: Group | None = None
        for (tap, plain), read in zip(way, reads, strict=True):
            if plain is not before:
                before, (node, nodes, _) = plain, plain
                rows = made.setdefault(plain, {})
            stored.append((tap.name, doc, base, key, start, end, id_of, node, nodes, read))
            tap.stored = True
            for share in tap.shares:
                group = share.group
                if (old or group.floored) and not group.takes(end, late):
                    continue
                channel = share.channel
                if base < share.first_doc:
                    owners = share.knowing(base)
                    if not owners:
                        continue
                    channel = channel.part(owners)
                written = share.written
                row = rows.get(written)
                if row is None:
                    own, values = nodes_of(written.names, nodes), values_of(written.paths, read)
                    row = rows[written] = Row(doc, key, base, start, end, id_of, node, own, values)
                group.came_to(channel, end)
                if group is not last:
                    memory.touched[group.number] = last = group
                if share.wakes and group.asleep:
                    memory.rouse(group, channel.owners)
                group.standing.offer(channel, share.place, row)
        return True


def _reads(way: _Way, texts: Mapping[int, str]) -> list[Texts] | None:
    """The texts that each tap reads of a document; None where one is not known."""
    found: list[Texts] = []
    read: Texts = ()
    before: Plain | None = None
    try:
        for _, plain in way:
            if plain is not before:
                before, places = plain, plain.read
                # Most blocks have one variable.
                one = len(places) == 1
                read = ((texts[places[0]],),) if one else tuple([(texts[n],) for n in places])
            found.append(read)
    except KeyError:
        return None
    return found
