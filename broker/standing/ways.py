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
from broker.query.catalog import Catalog
from broker.results.contents import Contents
from broker.standing.live import Share, Tap
from broker.standing.memory import Memory
from broker.standing.taps import nodes_of
from broker.state.pattern_tables import TapRow
from broker.state.stored_documents import StoredDocument
from xscl.interruption import PENDING, check

_KNOWN = 10_000


class _End:
    """Where rows of a tap arrive: patterns of a group, and `alone` if it is one, for a block of
    theirs. `names` are the nodes of its variables, `written` the paths of the texts, and `moved`
    says whether the lateness of these patterns has changed."""

    __slots__ = (
        *("alone", "channel", "first_doc", "group", "moved", "names", "patterns", "place"),
        *("standing", "wakes", "written"),
    )

    def __init__(self, share: Share, nodes: tuple[int, ...]) -> None:
        self.group, (self.place, query), self.patterns, self.channel = share
        self.standing = self.group.standing
        self.wakes = self.standing.wakes(self.place)
        self.moved = self.group.entry.floor is not None
        self.alone = self.patterns[0] if len(self.patterns) == 1 else None
        self.first_doc = max([each.entry.first_doc for each in self.patterns])
        self.names = nodes_of(query.names, nodes)
        self.written = query.texts


class _Branch:
    """A tap, for documents in which the nodes `of` its query are these: the node that is selected,
    those of its variables, those whose texts are read, and where its rows arrive."""

    __slots__ = ("ends", "name", "node", "nodes", "of", "read", "tap")

    def __init__(
        self,
        tap: Tap,
        of: Sequence[int | None],
        plain: tuple[int, tuple[int, ...], tuple[int, ...]],
        ends: Sequence[_End],
    ) -> None:
        self.tap = tap
        self.name = tap.name
        self.of = of
        self.node, self.nodes, self.read = plain
        self.ends = ends


_Way = Sequence[_Branch]


class Ways:
    """The ways by layout, as long as neither patterns nor their groups change."""

    def __init__(self, memory: Memory, catalog: Catalog, contents: Contents) -> None:
        self._memory = memory
        self._catalog = catalog
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
        found: list[_Branch] = []
        way: _Way | None = found
        for canonical, chosen in satisfied.taps:
            for name in sorted(self._catalog.taps[canonical.number]):
                tap = self._memory.members.taps.get(name)
                if tap is None:
                    continue
                branch = self._branch(tap, chosen.nodes)
                if branch is None:
                    way = None
                    break
                found.append(branch)
        self._known[satisfied] = way
        return way

    def _branch(self, tap: Tap, nodes: Sequence[int | None]) -> _Branch | None:
        """The part of a way that is for a tap, with the nodes of its query by place."""
        if self._memory.owns is not None:
            return None
        known: _Branch | None = tap.branch
        if known is not None and known.of == nodes:
            return known
        plain = tap.reader.plain(nodes)
        shares = tap.shares()
        if plain is None or tap.groups or tap.alone():
            return None
        tap.branch = branch = _Branch(
            tap, nodes, plain, [_End(share, plain[1]) for share in shares]
        )
        return branch

    def _go(
        self,
        way: _Way,
        of: StoredDocument,
        texts: Mapping[int, str],
        seen: Mapping[int, int],
    ) -> bool:
        """Hand over the rows of a document; False, and nothing, where a text is not known."""
        try:
            every = [tuple([(texts[node],) for node in branch.read]) for branch in way]
        except KeyError:
            return False
        if PENDING:
            check()
        memory = self._memory
        touched = memory.touched
        doc, base, key, _, id, _, start, end, *_ = of
        late = seen.get(doc) if base == doc else None
        for branch, read in zip(way, every, strict=True):
            node = branch.node
            memory.rows.append(
                TapRow._make(
                    (branch.name, doc, base, key, start, end, id, node, branch.nodes, read)
                )
            )
            branch.tap.stored = True
            for arrives in branch.ends:
                old = late is not None and (end < late or arrives.moved)
                if old and not arrives.group.takes(end, late):
                    continue
                written, names = arrives.written, arrives.names
                if len(written) == 1:
                    values = {written[0]: read[0]}
                else:
                    values = dict(zip(written, read, strict=True))
                row = Row(doc, key, base, start, end, id, node, names, values)
                pattern = arrives.alone
                if pattern is None or base < arrives.first_doc:
                    owners = memory.taking(arrives.patterns, base, end, arrives.wakes)
                    if not owners:
                        continue
                    arrives.standing.offer(arrives.channel.part(owners), arrives.place, row)
                else:
                    if pattern.standing is None or pattern.asleep is not None:
                        memory.reach(pattern, end, arrives.wakes)
                    elif pattern.newest < end:
                        pattern.newest = end
                    arrives.standing.offer(arrives.channel, arrives.place, row)
                touched[arrives.group.number] = arrives.group
        return True
