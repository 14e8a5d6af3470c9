"""What was found, in words: one sentence that says the most important thing, and a picture in text
of the blocks and the joins between them with their counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from broker.why.model import BlockCount, Explanation, Fell, JoinCount
from xscl.syntax.durations import format_microseconds


def written(found: Explanation) -> Explanation:
    """An explanation with its words."""
    said = replace(found, sentence=sentence_of(found))
    return replace(said, lines=tuple(lines_of(said)))


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


_BOUND = "; there are more pairs than were looked at, so some may match all the same"

# -- the sentence ------------------------------------------------------------------------------


def sentence_of(found: Explanation) -> str:
    """Why there is no match, with what to write instead; or how many there are."""
    return f"{found.query}: {_told(found)}"


def _told(found: Explanation) -> str:
    whole = found.whole
    if whole.matched:
        return _matching(found)
    for block in found.blocks:
        if not block.documents:
            return _empty(block)
    for block in found.blocks:
        if not block.passed:
            return _none_passes(block)
    for join in found.joins:
        if not join.passed:
            return f"{_no_pair(join)}{'' if join.exact else _BOUND}"
    if whole.joined:
        reason = "order" if not whole.ordered else "window"
        return (
            f"{plural(whole.joined, 'combination')} of {len(found.blocks)} documents satisfy the"
            f" joins, and none the {reason} of the whole"
        )
    return (
        f"each two blocks have pairs, and no combination of {len(found.blocks)} documents"
        f"{'' if whole.exact else ' that was tried'} satisfies all joins at once"
    )


def _matching(found: Explanation) -> str:
    whole = found.whole
    what = "combination of documents matches", "combinations of documents match"
    if len(found.blocks) == 1:
        what = "document matches", "documents match"
    said = f"{'' if whole.exact else 'at least '}{plural(whole.matched, *what)}"
    if whole.counted is None or whole.counted == whole.matched:
        return said
    if whole.counted:
        return f"{said}, {whole.counted:,} of them while it was registered and active"
    if found.status != "active":
        return f"{said}, but it is {found.status}: resume it to see those to come"
    return (
        f"{said}, but they began to arrive before it was registered, or resumed: subscribe with"
        " --backfill to have those too"
    )


def _empty(block: BlockCount) -> str:
    hint = f": {block.hint}" if block.hint else ""
    return f"no stored document flows through stream {block.stream}{hint}"


def _none_passes(block: BlockCount) -> str:
    """About the documents that came the farthest: those of other kinds fail at the beginning."""
    last = block.fell[-1]
    every = f"none of {plural(last.documents, 'document')} of {block.stream}"
    if last.documents == 1:
        every = f"the one document of {block.stream}"
    if last.place:
        every += f" with {block.conditions[last.place - 1]}"
    verb = "satisfies" if " " in last.condition or last.condition.endswith("]") else "has"
    if last.documents == 1:
        verb = "does not satisfy" if verb == "satisfies" else "has no"
    said = f"{every} {verb} {last.condition}"
    return f"{said}: {last.hint}" if last.hint else said


def _no_pair(join: JoinCount) -> str:
    joined = " and ".join([each.text for each in join.equalities])
    if not join.agree:
        missing = next((each.text for each in join.equalities if not each.pairs), joined)
        said = f"no pair of documents has {missing}" if missing else "no pair of documents"
    elif not join.ordered:
        said = f"{_pairs(join.agree, joined)}, but never in this order"
    elif not join.within:
        said = f"{_pairs(join.ordered, joined)} but {_are(join.ordered)} too far apart"
    else:
        said = f"{_pairs(join.within, joined)} in order and window, and none satisfies the rest"
    return f"{said}: {join.hint}" if join.hint else said


def _pairs(count: int, joined: str) -> str:
    has = "has" if count == 1 else "have"
    return f"{plural(count, 'pair')} {has} {joined}" if joined else plural(count, "pair")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# -- the picture -------------------------------------------------------------------------------


def lines_of(found: Explanation) -> Iterator[str]:
    """The sentence, then boxes and edges."""
    yield found.sentence
    if found.documents < found.stored:
        yield (
            f"  looked at the newest {found.documents:,} of {found.stored:,} stored documents;"
            " --documents-at-most has it look at more"
        )
    names = {block.number: block_name(block.number) for block in found.blocks}
    width = max(len(block.block) for block in found.blocks)
    for block in found.blocks:
        yield (
            f"  {names[block.number]}  {block.block.ljust(width)}  "
            f"{block.passed:,} of {plural(block.documents, 'document')} passed"
        )
        for fell in block.fell:
            hint = f"; {fell.hint}" if fell.hint and not block.passed else ""
            yield f"       {fell.documents:,} fail at {fell.condition} ({_some(fell)}){hint}"
        if block.hint:
            yield f"       {block.hint}"
    for join in found.joins:
        yield from _edge(join, names)
    if len(found.blocks) > 2:
        whole = found.whole
        least = "" if whole.exact else "at least "
        yield (
            f"  {'-'.join(names.values())}  {least}{plural(whole.joined, 'combination')} satisfy"
            f" all predicates, {least}{whole.ordered:,} the order,"
            f" {least}{whole.matched:,} the windows"
        )
    for example in found.whole.examples:
        yield f"  match: {', '.join(example)}"


def _some(fell: Fell) -> str:
    more = ", …" if fell.documents > len(fell.examples) else ""
    return f"{', '.join(fell.examples)}{more}"


def _edge(join: JoinCount, names: dict[int, str]) -> Iterator[str]:
    arrow = "──▶" if join.operator == "FOLLOWED BY" else "───"
    joined = " AND ".join([each.text for each in join.equalities]) or "(no equality)"
    least = "" if join.exact else "at least "
    yield (
        f"  {names[join.left]} {arrow} {names[join.right]}  {joined}: "
        f"{least}{plural(join.agree, 'pair')}"
    )
    if len(join.equalities) > 1:
        for each in join.equalities:
            some = "" if each.exact else "at least "
            yield f"       {each.text} alone: {some}{plural(each.pairs, 'pair')}"
    if join.operator == "FOLLOWED BY":
        yield f"       {least}{join.ordered:,} of them in this order"
    if join.window is not None:
        yield f"       {least}{join.within:,} of those within {format_microseconds(join.window)}"
    if join.predicates:
        yield f"       {least}{join.passed:,} of those with {' AND '.join(join.predicates)}"
    if not join.exact:
        yield "       there are more pairs than were looked at: some values are in many documents"
    for near in join.near:
        values = f" ({'; '.join(near.values)})" if near.values else ""
        yield f"       near: {near.left} and {near.right}, {near.detail}{values}"
    if join.hint:
        yield f"       {join.hint}"


def block_name(number: int) -> str:
    """A, B, C, …, as the picture calls blocks."""
    return chr(ord("A") + number) if number < 26 else f"#{number + 1}"
