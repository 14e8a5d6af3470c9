"""A document as numbered nodes in document order, for filters with all axes of XPath.

In: an lxml element. Out: a `Tree` of the whole document that contains it. A node is an
index: 0 is the document, an element comes before its attributes and these before its children. So
document order is the order of the numbers, and the descendants and attributes of node i are the
nodes from i + 1 up to, not including, `ends[i]`. Namespaces are not nodes here.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

from lxml import etree

from xscl.ast import Axis
from xscl.interruption import PENDING, check
from xscl.stage1.document import ELEMENT_BITS, ELEMENT_MASK, TEXT_NODE, attributes, string_value

DOCUMENT, ELEMENT, ATTRIBUTE, TEXT, COMMENT, INSTRUCTION = range(6)

Node = etree._Element | str


class Tree:
    """One document. `values` holds the lxml nodes of elements, comments and processing
    instructions, and the strings of attributes and texts; `names` are in Clark notation."""

    __slots__ = ("ends", "kinds", "known", "names", "numbers", "parents", "root", "values")

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.kinds: list[int] = []
        self.names: list[str] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self.values: list[Node] = []
        self.numbers: list[int] = []
        """The indexes of elements, comments and processing instructions, by preorder number."""
        self.known: dict[object, dict[int, Any]] = {}
        """Cached values of parts of filters at nodes, by the part."""
        self._build(root)

    def _build(self, root: etree._Element) -> None:
        self._add(DOCUMENT, "", -1, "")
        for before in reversed([*root.itersiblings(preceding=True)]):
            self._leaf(before, 0)
        self._element(root)
        for after in root.itersiblings():
            self._leaf(after, 0)
        self.ends[0] = len(self.kinds)

    def _add(self, kind: int, name: str, parent: int, value: Node) -> int:
        index = len(self.kinds)
        self.kinds.append(kind)
        self.names.append(name)
        self.parents.append(parent)
        self.values.append(value)
        self.ends.append(index + 1)
        return index

    def _leaf(self, node: etree._Element, parent: int) -> int:
        """A comment or processing instruction."""
        kind = INSTRUCTION if isinstance(node, etree._ProcessingInstruction) else COMMENT
        return self._add(kind, "", parent, node)

    def _element(self, root: etree._Element) -> None:
        """Add the root element and its descendants."""
        parent, numbers, add = 0, self.numbers, self._add
        for event, node in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
            if event == "start":
                parent = add(ELEMENT, str(node.tag), parent, node)
                numbers.append(parent)
                for name, value in attributes(node):
                    add(ATTRIBUTE, name, parent, value)
                if node.text:
                    add(TEXT, "", parent, node.text)
                continue
            if event == "end":
                self.ends[parent] = len(self.kinds)
                parent = self.parents[parent]
            else:
                numbers.append(self._leaf(node, parent))
            if node is not root and node.tail:
                add(TEXT, "", parent, node.tail)

    # -- nodes ---------------------------------------------------------------------------------

    def at(self, number: int) -> int:
        """The index of a node by its number in witnesses."""
        index = self.numbers[number & ELEMENT_MASK]
        ordinal = number >> ELEMENT_BITS
        if ordinal & TEXT_NODE:
            texts = (node for node in self.children(index) if self.kinds[node] == TEXT)
            return next(node for i, node in enumerate(texts, TEXT_NODE | 1) if i == ordinal)
        return index + ordinal

    def index(self, element: etree._Element) -> int:
        """The index of an element of this document."""
        numbers = self.known.setdefault(Tree.index, {})
        if not numbers:
            numbers.update((id(self.values[node]), node) for node in self.numbers)
        return cast(int, numbers[id(element)])

    def text(self, node: int) -> str:
        """The string value of a node (XPath 1.0, section 5)."""
        value = self.values[node]
        if isinstance(value, str):
            return string_value(self.root) if node == 0 else value
        return string_value(value) if self.kinds[node] == ELEMENT else value.text or ""

    def node(self, node: int) -> Node:
        """The lxml node; for the document its root element, which has the same string value."""
        return self.root if node == 0 else self.values[node]

    # -- axes ----------------------------------------------------------------------------------

    def children(self, node: int) -> Sequence[int]:
        known = self.known.setdefault(Tree.children, {})
        found = known.get(node)
        if found is None:
            found = known[node] = []
            kinds, ends, at, end = self.kinds, self.ends, node + 1, self.ends[node]
            while at < end:
                if kinds[at] != ATTRIBUTE:
                    found.append(at)
                at = ends[at]
        return cast(Sequence[int], found)

    def attributes(self, node: int) -> Sequence[int]:
        at = node + 1
        end, kinds = self.ends[node], self.kinds
        while at < end and kinds[at] == ATTRIBUTE:
            at += 1
        return range(node + 1, at)

    def ancestors(self, node: int) -> Iterator[int]:
        """The ancestors of a node, the nearest first."""
        while node:
            node = self.parents[node]
            yield node

    def following_siblings(self, node: int) -> Iterator[int]:
        siblings = self._siblings(node)
        return islice(siblings, bisect_right(siblings, node), None)

    def preceding_siblings(self, node: int) -> Iterator[int]:
        siblings = self._siblings(node)
        return (siblings[at] for at in range(bisect_right(siblings, node) - 2, -1, -1))

    def _siblings(self, node: int) -> Sequence[int]:
        """The children of a node's parent; an attribute and the document have no siblings."""
        if node == 0 or self.kinds[node] == ATTRIBUTE:
            return ()
        return self.children(self.parents[node])

    def following(self, node: int) -> Iterator[int]:
        return self._between(self.ends[node], len(self.kinds))

    def preceding(self, node: int) -> Iterator[int]:
        kinds, ends = self.kinds, self.ends
        for at in range(node - 1, 0, -1):
            if ends[at] <= node and kinds[at] != ATTRIBUTE:
                yield at

    def descendants(self, node: int) -> Iterator[int]:
        return self._between(node + 1, self.ends[node])

    def _between(self, start: int, end: int) -> Iterator[int]:
        kinds = self.kinds
        return (node for node in range(start, end) if kinds[node] != ATTRIBUTE)

    def reach(self, axis: Axis, node: int) -> Iterable[int]:
        """The nodes on an axis of a node, in the order in which positions count them."""
        if PENDING:
            check()
        return _AXES[axis](self, node)

    def reach_all(self, axis: Axis, nodes: Sequence[int]) -> list[int]:
        """The nodes on an axis of any of the given nodes, both in document order. The time is
        linear in the document although the axes of many nodes overlap."""
        if PENDING:
            check()
        match axis:
            case "descendant" | "descendant-or-self":
                return self._below(nodes, axis == "descendant-or-self")
            case "following" if nodes:
                return [*self._between(min(self.ends[node] for node in nodes), len(self.kinds))]
            case "preceding" if nodes:
                return sorted(self.preceding(nodes[-1]))
            case "following-sibling":  # per parent, those of its first child among the nodes
                nodes = [*{self.parents[node]: node for node in reversed(nodes)}.values()]
            case "preceding-sibling":
                nodes = [*{self.parents[node]: node for node in nodes}.values()]
            case "ancestor" | "ancestor-or-self":
                return self._above(nodes, axis == "ancestor-or-self")
        return sorted({found for node in nodes for found in self.reach(axis, node)})

    def _below(self, nodes: Sequence[int], itself: bool) -> list[int]:
        found: set[int] = set(nodes) if itself else set()
        done = 0
        for node in nodes:
            found.update(self._between(max(node + 1, done), self.ends[node]))
            done = max(done, self.ends[node])
        return sorted(found)

    def _above(self, nodes: Sequence[int], itself: bool) -> list[int]:
        found: set[int] = set()
        for node in nodes:
            for above in self.ancestors(node):
                if above in found:
                    break
                found.add(above)
        return sorted(found.union(nodes) if itself else found)


class _Last(threading.local):
    tree: Tree | None = None


_LAST = _Last()


def tree_of(element: etree._Element) -> Tree:
    """The tree of an element's document; each thread caches its last one until `forget_tree`."""
    root = element.getroottree().getroot()
    if _LAST.tree is None or _LAST.tree.root is not root:
        _LAST.tree = Tree(root)
    return _LAST.tree


def forget_tree() -> None:
    """Drop the cached tree, so that its document can be changed or freed."""
    _LAST.tree = None


_AXES: Mapping[Axis, Callable[[Tree, int], Iterable[int]]] = {
    "ancestor": Tree.ancestors,
    "ancestor-or-self": lambda tree, node: chain((node,), tree.ancestors(node)),
    "attribute": Tree.attributes,
    "child": Tree.children,
    "descendant": Tree.descendants,
    "descendant-or-self": lambda tree, node: chain((node,), tree.descendants(node)),
    "following": Tree.following,
    "following-sibling": Tree.following_siblings,
    "parent": lambda tree, node: (tree.parents[node],) if node else (),
    "preceding": Tree.preceding,
    "preceding-sibling": Tree.preceding_siblings,
    "self": lambda tree, node: (node,),
}
