"""Stage 1 of the subscriptions: the automaton of the catalog's edges, and its compiled form, which
other processes get.

In: changes of the catalog's edges. Out: the matcher; bytes that `matcher_for` makes one of.
"""

from __future__ import annotations

from broker.documents.witnessing import compile_changes, compile_spec
from broker.query.edges import Edges
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge

APPENDED = 1_000
"""Changes of edges that may always be appended to a compiled form."""


class Stage1:
    """The matcher of some edges, as they were when `synchronize` was last called."""

    def __init__(self, edges: Edges) -> None:
        self.matcher = Matcher()
        self.appended = APPENDED
        self._edges = edges
        self._spec: bytes | None = None
        self._unsent: dict[int, Edge | None] = {}
        """Edges that have changed since the spec was made."""
        self._added = 0
        """How many changes were appended to the spec since it was compiled whole."""
        self._states: int | None = None

    def synchronize(self) -> None:
        """Apply the changes of edges to the matcher."""
        edges = self._edges
        alike = edges.alike() if self._spec is None else []
        for each in alike:
            self.matcher.add_alike(each)
        changed = edges.changes()
        self.matcher.change(changed.items())
        if changed or alike:
            self._states = None
        if self._spec is not None:
            self._unsent |= changed
            self._added += len(changed)
            if self._added > max(self.appended, len(edges)):
                self._spec, self._added = None, 0
                self._unsent.clear()

    def spec(self) -> bytes:
        """The compiled form; the same object until edges change.

        Changes are appended to the form compiled before, until there are as many of them as edges.
        """
        if self._spec is None:
            self._spec = compile_spec(self.matcher)
        elif self._unsent:
            self._spec += compile_changes(self._unsent.items())
        self._unsent.clear()
        return self._spec

    def states(self) -> int:
        """The number of states of the automaton; counted again only after edges have changed."""
        if self._states is None:
            self._states = sum(1 for _ in self.matcher.automaton.states())
        return self._states
