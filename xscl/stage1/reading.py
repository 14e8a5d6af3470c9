"""Documents to witnesses: the stops of the automaton in each, and what is witnessed there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from lxml import etree
from xxhash import xxh3_64_intdigest

from xscl.growth import paused
from xscl.interruption import PENDING, check
from xscl.stage1.constants import Satisfied, satisfied_by
from xscl.stage1.course import DOCUMENT, Ask, Course, Stop
from xscl.stage1.document import string_value
from xscl.stage1.nfa import Automaton
from xscl.stage1.states import StateSet
from xscl.stage1.structures import Structures
from xscl.stage1.tree import forget_tree
from xscl.stage1.walk import Standing, Walk, of_constants
from xscl.stage1.witness import Witness

_TAG = attrgetter("tag")
_FEW = 1_000
"""Elements that the collector of cycles may look at while they are in memory."""


class Reading:
    """What is known of documents that were read. `block` is the number of elements in memory at a
    time, beside the document itself."""

    def __init__(self, automaton: Automaton, block: int) -> None:
        self.automaton = automaton
        self.block = block
        self.structures = Structures(automaton)
        self.standing: Standing = {}
        """Cached positions of var1 on label paths, for groups that are not fixed."""

    def witness(self, root: etree._Element, start: StateSet | None) -> Witness:
        """The witness of a document in which the automaton starts here; without a start, no pattern
        reads it, and it has an outline only."""
        every = root.iter()
        elements: list[Any] = [*islice(every, min(_FEW, self.block))]
        if len(elements) < _FEW:
            return self._witness(every, elements, start)
        with paused():
            # All of them are freed before the collector of cycles could look at any.
            elements += islice(every, max(0, self.block - _FEW))
            try:
                return self._witness(every, elements, start)
            finally:
                elements.clear()

    def _witness(
        self, every: Iterator[Any], elements: list[Any], start: StateSet | None
    ) -> Witness:
        """The witness of a document with these elements, and `every` other one."""
        witness = Witness()
        tags = [*map(_TAG, elements)]
        children = [*map(len, elements)]
        try:
            if len(elements) == self.block:
                self._blocks(every, elements, tags, children, start, witness)
                return witness
            witness.outline, stops = self.structures.find(tags, children, start)
            self._stops(stops, elements, witness)
        finally:
            forget_tree()
        return witness

    def _blocks(
        self,
        every: Iterator[Any],
        elements: list[Any],
        tags: list[object],
        children: list[int],
        start: StateSet | None,
        witness: Witness,
    ) -> None:
        """Witness a document a block of elements at a time."""
        course = Course(self.structures.paths, start)
        done = 0
        while done < len(elements):
            self._stops(course.follow(tags, children), elements, witness)
            stay = {number: elements[number] for number in course.opened()}
            # Those that nobody will look at again are freed.
            elements[done:] = [None] * (len(elements) - done)
            for number, element in stay.items():
                elements[number] = element
            done = len(elements)
            elements += islice(every, self.block)
            tags = [*map(_TAG, elements[done:])]
            children = [*map(len, elements[done:])]
        witness.outline = course.outline()

    def _stops(self, stops: Iterable[Stop], elements: Sequence[Any], witness: Witness) -> None:
        """Witness what these stops say of a document's elements. This runs for each document, so it
        calls few functions."""
        flat, texts, digest = witness.flat, witness.texts, xxh3_64_intdigest
        walk: Walk | None = None
        way: tuple[int, ...] | None = None
        satisfied: Satisfied = {}
        for rows, coded, plain, visit in stops:
            first = len(flat)
            flat += rows
            for number, inner, place, others in coded:
                element = elements[number]
                texts[number] = text = string_value(element) if inner else element.text or ""
                flat[first + place] = code = digest(text.encode())
                for other in others:
                    flat[first + other] = code
            for number in plain:
                texts[number] = elements[number].text or ""
            if visit is None:
                continue
            here, number, above, asked = visit
            if asked is not None and _plainly(asked, number, elements, satisfied, witness):
                continue
            if walk is None:
                walk = Walk(self.automaton, self.standing, witness, satisfied)
            if above is not way:
                way = above
                walk.open = [(DOCUMENT, None), *[(n, elements[n]) for n in above]]
            walk.visit(here, elements[number], number)


def _plainly(
    asked: Sequence[Ask],
    number: int,
    elements: Sequence[Any],
    known: Satisfied,
    witness: Witness,
) -> bool:
    """Witness an element of a document for the edges that its constants find, as `Walk` does;
    False, and nothing, if more has to be found out."""
    flat = witness.flat
    first = len(flat)
    plain = True
    for each, children, plainly in asked:
        found = known.get(each)
        if found is None:
            if children is None:
                found = satisfied_by(known, each, elements[each[1]])
            else:
                texts = [
                    string_value(elements[n]) if inner else elements[n].text or ""
                    for n, inner in children
                ]
                found = known[each] = each[0].satisfied_by(texts)
        if not found or not plain:
            continue
        if plainly is None:
            plain = False
            continue
        if PENDING:
            check()
        group, above = plainly
        for entry in of_constants(group, found):
            if entry.tests:
                plain = False
                break
            flat += (entry.var1, entry.var2, above, number, 0)
    if not plain:
        del flat[first:]
    elif len(flat) > first and number not in witness.texts:
        element = elements[number]
        if not len(element):
            witness.texts[number] = element.text or ""
    return plain
