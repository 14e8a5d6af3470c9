"""What the subscriptions share: templates, canonical queries, the automaton of all paths.

In: an engine, and its lock, which is held for a moment only: what is looked through afterwards goes
on changing, so the numbers may be off by what comes or goes meanwhile. Out: counts, the templates
with most subscriptions, and the beginnings of the automaton as a tree, all bounded, so that it can
be drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from heapq import nsmallest

from broker.engine import Engine
from broker.query.canonical import Canonical
from xscl.normal.operators import FollowedBy, blocks_of, operators_of
from xscl.normal.template import Template
from xscl.stage1.nfa import Automaton
from xscl.stage1.states import State

MOST_TEMPLATES = 50
MOST_PATHS = 150
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """An operator of a template: its sides as numbers of blocks, and how many values are equal."""

    operator: str
    left: Sequence[int]
    right: Sequence[int]
    equalities: int


@dataclass(frozen=True, slots=True)
class SharedTemplate:
    """A template: the shape of joins that queries have in common. `conditions` are those that are
    no equalities; `examples` are ids of subscriptions."""

    number: int
    blocks: int
    joins: Sequence[SharedJoin]
    conditions: int
    queries: int
    subscriptions: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class SharedPath:
    """A state of the automaton, in the order of a tree that is written down: `depth` begins at 0,
    which are streams; `states` are those below and itself, `ends` the paths that end here."""

    depth: int
    label: str
    states: int
    ends: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """What is shared. `steps` are the states that there were if no two paths shared one; `shown`
    counts the states among `paths`."""

    subscriptions: int
    queries: int
    patterns: int
    template_count: int
    templates: Sequence[SharedTemplate]
    states: int
    steps: int
    paths: Sequence[SharedPath]


def sharing(engine: Engine, lock: AbstractContextManager[None]) -> Sharing:
    """What is shared now; up to a second for 60,000 subscriptions, of which the lock is held for
    some milliseconds."""
    catalog = engine.catalog
    with lock:
        subscriptions = catalog.registered()
        canonical = [*catalog.canonical.values()]
        shapes = {number: template for template, number in catalog.templates.items()}
        patterns = sum(number > 0 for number in catalog.patterns)
        of_patterns = {each.canonical.number for each in catalog.patterns.values()}
        automaton = engine.registry.stage1.matcher.automaton
        starts = [*automaton.starts.items()]
    states, steps, paths = _paths(automaton, starts)
    return Sharing(
        subscriptions=subscriptions,
        queries=len(canonical),
        patterns=patterns,
        template_count=len(shapes),
        templates=_templates((q for q in canonical if q.number not in of_patterns), shapes),
        states=states,
        steps=steps,
        paths=paths,
    )


def _templates(
    canonical: Iterable[Canonical], shapes: Mapping[int, Template]
) -> list[SharedTemplate]:
    """Those with most subscriptions; queries of other queries do not count."""
    queries: Counter[int] = Counter()
    subscriptions: Counter[int] = Counter()
    examples: dict[int, list[str]] = {}
    for query in canonical:
        subscribers = [*query.subscribers.items()]  # at once, as they may change
        own = [each.id for number, each in subscribers if number > 0]
        if own:
            queries[query.template] += 1
            subscriptions[query.template] += len(own)
            known = examples.setdefault(query.template, [])
            known += own[: _EXAMPLES - len(known)]
    return [
        SharedTemplate(
            number=number,
            blocks=shapes[number].blocks,
            joins=_joins(shapes[number]),
            conditions=len(shapes[number].residuals),
            queries=queries[number],
            subscriptions=count,
            examples=examples[number],
        )
        for number, count in subscriptions.most_common(MOST_TEMPLATES)
    ]


def _joins(template: Template) -> list[SharedJoin]:
    found = []
    for operator in operators_of(template.operators):
        left, right = blocks_of(operator.left), blocks_of(operator.right)
        between = 0
        for a, b in template.joins:
            one, other = template.nodes[a][0], template.nodes[b][0]
            between += (one in left and other in right) or (other in left and one in right)
        name = "FOLLOWED BY" if isinstance(operator, FollowedBy) else "JOIN"
        found.append(SharedJoin(name, left, right, between))
    return found


def _paths(
    automaton: Automaton, starts: Sequence[tuple[str, State]]
) -> tuple[int, int, list[SharedPath]]:
    """How many states there are, how many there were without sharing, and the tree of those with
    most below them. A state's moves are read at once, so the automaton may change meanwhile."""
    order = list(automaton.states())
    size = dict.fromkeys(order, 1)
    depth: dict[State, int] = {}
    below: dict[State, list[State]] = {}
    steps = 0
    for state in order:  # a state comes behind its origin
        depth[state] = 0 if state.origin is None else depth[state.origin] + 1
        steps += depth[state] * len(state.accepts or ())
        if state.origin is not None:
            below.setdefault(state.origin, []).append(state)
    for state in reversed(order):
        if state.origin is not None:
            size[state.origin] += size[state]
    # The largest first, until there are enough to draw; a parent is never smaller than a child.
    shown = set(nsmallest(MOST_PATHS, order, key=lambda each: (-size[each], depth[each])))
    paths: list[SharedPath] = []
    known = [start for start in starts if start[1] in size]
    known.sort(key=lambda start: (-size[start[1]], start[0]))
    waiting = [(state, 0, stream) for stream, state in reversed(known)]
    while waiting:
        state, level, label = waiting.pop()
        if state not in shown:
            continue
        paths.append(SharedPath(level, label, size[state], len(state.accepts or ())))
        inner: list[tuple[State, str]] = []
        for each in below.get(state, ()):
            if each.kind == "loop":  # it is drawn with what comes behind it
                shown.add(each)
                inner += [(one, f"//{_label(one)}") for one in below.get(each, ())]
            else:
                inner.append((each, f"/{_label(each)}"))
        inner.sort(key=lambda pair: (size[pair[0]], pair[1]))
        waiting += [(each, level + 1, text) for each, text in inner]
    return len(order), steps, paths


def _label(state: State) -> str:
    match state.kind:
        case "texts":
            return "text()"
        case "self_below":
            return "."
        case "attributes":
            return f"@{state.key}"
        case _:
            return state.key.rpartition("}")[2]
