"""Exactly what holds and what does not between documents that somebody names, of an event pattern.

In: a pattern with the rows of stored documents, and some of these documents. Out: for each block
and document its conditions, and what becomes of the documents if there were no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broker.pattern.instances import Row
from broker.pattern.trying import TooMuch, allowed
from broker.standing.why import Question, shown
from broker.state.stored_documents import StoredDocument
from broker.why.asked import Asked
from broker.why.given import Given, GivenBlock, block_lines, elsewhere, given_block
from broker.why.history import History
from broker.why.patterns import as_query, together
from xscl.syntax.printer import format_pattern


def given_pattern(asked: Question, documents: Sequence[StoredDocument], past: History) -> Given:
    """What a pattern says of these documents; blocks are numbered as they stand in it, equal ones
    once."""
    taps = {format_pattern(tap.block): tap.block for tap in asked.plan.taps}
    alone = [(shown(block), Asked(as_query(asked, block))) for block in taps.values()]
    streams = {stream for _, each in alone for stream in each.streams}
    blocks: list[GivenBlock] = []
    lines: list[str] = []
    for document in documents:
        if streams.isdisjoint(document.streams):
            lines.append(elsewhere(document.id, streams))
        for number, (text, each) in enumerate(alone):
            tree, judged = each.judge(document)
            if 0 in judged:
                made = given_block(each, document, tree, 0, judged[0].failed, judged[0].rows)
                blocks.append(replace(made, block=number))
                lines += block_lines(text, made)
    only = frozenset([document.doc for document in documents])
    narrowed = replace(asked, rows=replace(asked.rows, only=only))
    takes_part = {row.id for rows in _read(narrowed, past).values() for row in rows}
    passing = dict.fromkeys([block.document for block in blocks if block.passed])
    for id in passing:
        if id not in takes_part:
            lines.append(
                f"  {id} takes no part: it came before {asked.name} was there, or too late"
            )
    lines.append(f"  together: {together(narrowed, past)}")
    return Given(tuple([d.id for d in documents]), tuple(blocks), (), tuple(lines))


def _read(asked: Question, past: History) -> Mapping[int, Sequence[Row]]:
    try:
        with allowed(asked.tries):
            return asked.rows.read(past.rest)
    except TooMuch:
        return {}
