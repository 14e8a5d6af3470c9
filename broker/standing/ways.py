"""The way of a document to the patterns that take it, made once for all documents of a layout.

What a document of a layout satisfies, which of its texts are read and who takes them is the same
for all of them, and mostly stage 1 has handed over the texts. So of such a document there is
nothing to find out: its rows are made, and handed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.join.candidates import Candidate, Found
from broker.join.one_block import Satisfied, Tapped
from broker.pattern.in_order.channels import Channel
from broker.pattern.instances import Row
from broker.pattern.trying import TooMuch
from broker.results.contents import Contents, Matched
from broker.standing.memory import Memory
from broker.standing.tap_index import Share
from broker.standing.taps import Places, Written, nodes_of, partitioned, read_of, values_of
from broker.state.pattern_tables import Texts
from broker.state.stored_documents import StoredDocument
from xscl.interruption import PENDING, check

_KNOWN = 10_000


class _Way:
    """`reads`: where something is read; `one` is the node whose text is all of it, None if there is
    more. `stored`: the names of taps, each with the place of what is read for it in `reads`, the
    selected node and those of variables. `rows`: of each row of patterns that place, the selected
    node, the nodes of variables, the paths, and whether a partition is read behind them. `shares`:
    who takes them, each with its channel and the place of its row."""

    __slots__ = ("one", "reads", "rows", "shares", "stored")

    def __init__(self) -> None:
        self.reads: list[Places] = []
        self.one: int | None = None
        self.stored: list[tuple[str, int, int, tuple[int, ...]]] = []
        self.rows: list[tuple[int, int, Mapping[str, int], tuple[str, ...], bool]] = []
        self.shares: list[tuple[Share, Channel, int]] = []


class Ways:
    """The ways by layout, as long as neither patterns nor their groups change."""

    def __init__(self, memory: Memory, contents: Contents) -> None:
        self._memory = memory
        self._contents = contents
        self._known: dict[Satisfied, _Way | None] = {}
        self._version: object = None

    def take(
        self,
        tapped: Sequence[Tapped],
        documents: Sequence[StoredDocument],
        seen: Mapping[int, int],
    ) -> list[Found]:
        """Take documents of taps, which are among these; the candidates of those are left for which
        more has to be found out. `seen` is the highest time when a document came, of those that
        came in."""
        known = self._known
        version = self._memory.members.taps.version
        if version is not self._version or len(known) > _KNOWN:
            known.clear()
            self._version = version
        left: list[Found] = []
        others: Mapping[int, Matched] = {}
        part = self._contents.part
        for doc, satisfied in tapped:
            way = known[satisfied] if satisfied in known else self._find(satisfied)
            if way is None:
                left += [(of, Candidate((doc,), chosen)) for of, chosen in satisfied.taps]
                continue
            there = part(doc)
            if there is None:  # nothing was known of it
                if doc not in others:
                    unknown = [each for each, _ in tapped if part(each) is None]
                    others = self._contents.of(unknown, documents)
                there = others[doc].stored, others[doc].texts
            self._go(way, *there, seen)
        return left

    def _find(self, satisfied: Satisfied) -> _Way | None:
        """The way of the documents of a layout; None where they have to be looked at one by one."""
        way = None if self._memory.owns is not None else self._way(satisfied)
        if satisfied.again:
            self._known[satisfied] = way
        return way

    def _way(self, satisfied: Satisfied) -> _Way | None:
        way = _Way()
        reads: dict[Places, int] = {}
        rows: dict[tuple[int, Written], int] = {}
        of_query = self._memory.members.taps.of_query
        for canonical, chosen in satisfied.taps:
            for tap in of_query(canonical.number):
                if tap.groups or tap.alone:
                    return None
                places = tap.reader.places(chosen.nodes)
                at = reads.setdefault(places, len(reads))
                node, nodes = places.node, places.nodes
                way.stored.append((tap.name, at, node, nodes))
                tap.stored = True
                for share in tap.shares:
                    own = share.written
                    place = rows.setdefault((at, own), len(rows))
                    if place == len(way.rows):
                        several = bool(share.query.tap.partition)
                        way.rows.append((at, node, nodes_of(own.names, nodes), own.paths, several))
                    way.shares.append((share, share.channel, place))
        way.reads = [*reads]
        if len(reads) == 1 and len(way.reads[0].read) == 1 and not way.reads[0].readers:
            way.one = way.reads[0].read[0]
        return way

    def _go(
        self, way: _Way, of: StoredDocument, texts: Mapping[int, str], seen: Mapping[int, int]
    ) -> None:
        """Hand over the rows of a document. This runs for each document that is taken, so it calls
        few functions."""
        if PENDING:
            check()
        doc, base, key, _, id_of, _, start, end, _, _, _, _ = of
        one = way.one
        reads: Sequence[Texts]
        if one is not None and one in texts:  # as of most
            reads = (((texts[one],),),)
        else:
            reads = [self._read(places, doc, texts) for places in way.reads]
        memory = self._memory
        for name, at, node, nodes in way.stored:
            memory.rows.append((name, doc, base, key, start, end, id_of, node, nodes, reads[at]))
        rows = self._rows(way, of, reads)
        late = seen.get(doc) if base == doc else None
        old = late is not None and end < late
        for share, channel, place in way.shares:
            group = share.group
            if old or group.floored or base < share.first_doc:
                owners = share.knowing(base) if group.takes(end, late) else ()
                if not owners:
                    continue
                channel = channel.part(owners)
            memory.touched[group.number] = group
            group.came_to(channel, end)
            if share.wakes and group.asleep:
                memory.rouse(group, channel.owners)
            row = rows[place]
            if row is None:
                group.standing.give_up(channel.owners)
            else:
                group.standing.offer(channel, share.place, row)

    def _rows(self, way: _Way, of: StoredDocument, reads: Sequence[Texts]) -> Sequence[Row | None]:
        """The rows of a document for patterns, None for one with more combinations of values than
        it may have. Taps with the same variables and paths have one: it says nothing of what else
        they ask."""
        doc, base, key, _, id, _, start, end, _, _, _, _ = of
        rows: list[Row | None] = []
        for at, node, nodes, paths, several in way.rows:
            read, tuples = reads[at], None
            if several:
                try:
                    read, tuples = partitioned(read, len(paths), self._memory.budget)
                except TooMuch:
                    rows.append(None)
                    continue
            values = values_of(paths, read)
            rows.append(Row(doc, key, base, start, end, id, node, nodes, values, tuples))
        return rows

    def _read(self, places: Places, doc: int, texts: Mapping[int, str]) -> Texts:
        """What is read of a document."""
        read, readers = places.read, places.readers
        if not readers:
            found = [texts.get(node) for node in read]
            if None not in found:
                return tuple([(text,) for text in found if text is not None])
            readers = (None,) * len(read)
        return read_of(zip(read, readers, strict=True), self._contents.one(doc))
