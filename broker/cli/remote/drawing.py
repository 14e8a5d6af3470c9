"""An event pattern for people: a sentence, and a picture in text."""

from __future__ import annotations

from collections.abc import Iterator

from broker.service.core.outline import outline
from broker.why.pattern_sentence import pattern_sentence
from broker.why.telling import block_name
from xscl.check.program import ResolvedQuery
from xscl.syntax.printer import format_duration, format_expression


def pattern_picture(resolved: ResolvedQuery) -> Iterator[str]:
    """The sentence, then its blocks and operators, deeper what is inside others."""
    query = resolved.query
    yield f"{resolved.id}: {pattern_sentence(resolved)}"
    blocks = 0
    for part in outline(query.pattern):
        indent = "  " * (part.depth + 1)
        window = f"within {part.window}" if part.window else ""
        if part.kind == "block":
            yield f"{indent}{block_name(blocks)}  {part.text}"
            blocks += 1
            continue
        name = part.name or "judged by itself:"
        yield indent + "  ".join(filter(None, [name, part.text, window]))
    if query.where is not None:
        yield f"  where {format_expression(query.where)}"
    if query.within is not None:
        yield f"  all within {format_duration(query.within)}"
