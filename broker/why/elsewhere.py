"""What a block asks for and its stream does not have: whether it is in another stream, or in
documents of its own.

Looked for among the newest documents, and only where nothing nearer helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from broker.why.asked import Asked
from broker.why.blocks import BlockReader, Condition
from broker.why.history import History
from broker.why.telling import plural
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.normal.lower import NOWHERE
from xscl.syntax.printer import format_pattern

_LOOKED = 2_000


def elsewhere(
    reader: BlockReader, place: int, namespaces: Mapping[str, str], past: History
) -> str | None:
    """What to write instead of a block of which no document passes the condition of this place."""
    block, condition = reader.block, reader.conditions[place]
    others = [s for s in past.streams() if not s.startswith("~") and s != block.stream]
    for stream, count in _passing(block, others, namespaces, past).most_common(1):
        other = format_pattern(replace(block, stream=stream))
        return f"{plural(count, 'document')} of {stream} would pass: write {other}"
    return _of_their_own(block, condition, namespaces, past)


def _of_their_own(
    block: ast.Block, condition: Condition, namespaces: Mapping[str, str], past: History
) -> str | None:
    """Whether the element of a step is in other documents of the stream."""
    step = condition.step
    if step is None or step.test.kind != "element" or step.test.name is None:
        return None
    inside = len(condition.steps) - 1
    main = condition.text.startswith("/")
    if main and not inside:
        return None
    top = replace(block.steps[inside] if main else step, axis="//")
    own = ast.Block(block.stream, (top, *(block.steps[inside + 1 :] if main else ())), span=NOWHERE)
    count = _passing(own, [block.stream], namespaces, past)[block.stream]
    if not count:
        return None
    said = (
        f"{plural(count, 'other document')} of {block.stream} {'has' if count == 1 else 'have'} it"
    )
    text = format_pattern(own)
    if main:
        return f"{said}: write {text}"
    return f"{said}: join with them, as in {format_pattern(_bare(block))} JOIN {text}"


def _bare(block: ast.Block) -> ast.Block:
    """A block without variables and filters."""
    steps = tuple([replace(step, variable=None, filters=()) for step in block.steps])
    return replace(block, steps=steps)


def _passing(
    block: ast.Block, streams: Collection[str], namespaces: Mapping[str, str], past: History
) -> Counter[str]:
    """How many of the newest documents of these streams pass a block, by stream."""
    found: Counter[str] = Counter()
    if not streams:
        return found
    text = format_pattern(block)
    one = next(iter(streams))
    query = ast.Query(replace(block, stream=one), span=NOWHERE)
    asked = Asked(ResolvedQuery("", query, namespaces, text, text, ()))
    for documents in past.newest(streams, _LOOKED):
        for document in documents:
            own = [stream for stream in document.streams if stream in streams]
            _, judged = asked.judge(document._replace(streams=(one,)))
            if any(each.failed is None for each in judged.values()):
                found.update(own)
    return found
