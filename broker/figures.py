"""Counts of what a broker holds, for status and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.engine import Engine
from broker.model import UNBOUNDED, Waiting


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts. `documents` are those stored, expired ones of which only the identity is left
    included; `live_documents` are in memory; `rows` are those of RL. `subscriptions` are all,
    `paused` those that are not active, suspended ones included, and `suspended` these alone.
    `variables` and `nfa_states` are those of stage 1.

    `next_doc` is the number of the next document, `newest` the highest time so far and `watermark`
    that less the lateness, in microseconds, None before the first document; `applied` is the
    highest sequence number applied, by source. `waiting` is what event patterns have not decided
    yet."""

    documents: int
    rows: int
    matches_in_outbox: int
    dead_letters: int
    subscriptions: int
    paused: int
    suspended: int
    canonical: int
    templates: int
    nfa_states: int
    variables: int
    live_documents: int
    next_doc: int
    newest: int | None
    watermark: int | None
    applied: Mapping[str, int]
    waiting: Sequence[Waiting]


_ROWS = 10_000
"""Rows of event patterns that sleep since the start, of which their state is made at once: some
tenths of a second, in which no batch is matched. The next look makes more of them."""


def figures(engine: Engine) -> Figures:
    """The counts of an engine; cheap."""
    registry, seen = engine.registry, engine.newest()
    newest = seen if seen > -UNBOUNDED else None
    return Figures(
        documents=engine.relations.count(),
        rows=engine.relations.rows.count(),
        matches_in_outbox=engine.outbox.count(),
        dead_letters=engine.count_letters(),
        subscriptions=registry.count(),
        paused=len(registry.halted),
        suspended=registry.gaps.suspended(),
        canonical=len(engine.catalog.canonical),
        templates=len(engine.catalog.templates),
        nfa_states=registry.stage1.states(),
        variables=len(engine.catalog.variables),
        live_documents=engine.live_documents(),
        next_doc=engine.admission.next_doc,
        newest=newest,
        watermark=None if newest is None else newest - engine.watermark.lateness,
        applied=engine.admission.all_applied(),
        waiting=engine.waiting(_ROWS),
    )
