"""What was decided of documents as they were, before one of them was revised: it is not decided
again.

What is made again of the rows of documents knows which matches are decided: those that these rows
have by the watermark. A revision may take such a match from them, and it or a later one may bring
it back where time has not come yet. So the matches that a revision takes from what is decided are
noted in the marks, as long as their documents are kept.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from broker.pattern.in_order.standing import Answer
from broker.pattern.instances import due_beyond
from broker.pattern.keeping import looks_at_several
from broker.pattern.published import Published
from broker.standing.live import Live
from broker.standing.marks import Marking
from broker.state.pattern_tables import PatternTables

Decided = dict[int, tuple[Live, Sequence[Published]]]
"""By their numbers patterns, and the matches of some rows that they have decided."""

TOLD = "told "
"""What the keys of these marks begin with; the number of a document of the match and what the match
is follow."""


class Told:
    """The matches that are not decided again, by patterns. The marks are those of all subscriptions
    of a pattern, as each of them may be the last that is left. A match is kept as long as one of
    its documents, since it needs all of them."""

    def __init__(self, tables: PatternTables, marks: Marking) -> None:
        self._tables = tables
        self._marks = marks
        self._known: dict[int, dict[str, tuple[int, int]]] = {}
        """By the numbers of patterns: of each match the number of one of its documents, and when
        that ends now."""

    def clear(self) -> None:
        self._known.clear()

    def load(self, of: Mapping[int, Live]) -> None:
        """Read what is stored of the patterns of subscriptions, by the numbers of these."""
        for number, key, end in self._tables.marks_like(TOLD):
            pattern = of.get(number)
            if pattern is not None:
                doc, match = key.removeprefix(TOLD).split(" ", 1)
                self._known.setdefault(pattern.number, {})[match] = (int(doc), end)

    def of(self, number: int) -> Container[str]:
        """The names of those of a pattern."""
        return self._known.get(number, ())

    def forget(self, pattern: Live) -> None:
        """A pattern has gone."""
        self._known.pop(pattern.number, None)

    def note(self, before: Decided, now: Decided, ends: Mapping[int, int], settled: int) -> None:
        """By the highest time `settled` patterns had decided some matches before documents were
        revised, and have these now. `ends` says when the revised ones end, by number."""
        for number, (pattern, decided) in before.items():
            watermark = pattern.watermark(settled)
            left = {
                each.identity
                for each in _over(pattern, now.get(number, (pattern, ()))[1], watermark)
            }
            for each in _over(pattern, decided, watermark):
                if each.identity not in left:
                    row = each.instance.rows[0]
                    self._keep(pattern, each.name, row.doc, ends.get(row.doc, row.end))

    def _keep(self, pattern: Live, match: str, doc: int, end: int) -> None:
        self._known.setdefault(pattern.number, {})[match] = (doc, end)
        for number in pattern.subscriptions:
            self._marks.note(number, {f"{TOLD}{doc} {match}": end})

    def renew(self, patterns: Mapping[int, Live], ends: Mapping[int, int]) -> None:
        """Documents are revised, given by number, and end now at these times: what is noted with
        them is kept as long."""
        for number, own in self._known.items():
            for match, (doc, _) in [*own.items()]:
                if doc in ends:
                    self._keep(patterns[number], match, doc, ends[doc])

    def left(self, answer: Answer) -> Answer:
        """What patterns publish of what they have found, by their numbers."""
        for number in self._known.keys() & answer.keys():
            found, own = answer[number], self._known[number]
            if found:
                answer[number] = [each for each in found if each.name not in own]
        return answer

    def expire(self, horizon: int) -> None:
        """Forget what is of documents that ended before a time, which are deleted."""
        for number, own in [*self._known.items()]:
            self._known[number] = {m: (doc, end) for m, (doc, end) in own.items() if end >= horizon}
            if not self._known[number]:
                del self._known[number]


def _over(
    pattern: Live, decided: Sequence[Published], watermark: int | None
) -> Sequence[Published]:
    """Those of the matches that a pattern has decided that do not wait for others."""
    if watermark is None or not looks_at_several(pattern.pattern.plan):
        return decided
    return [each for each in decided if due_beyond(each.instance.end) <= 2 * watermark]
