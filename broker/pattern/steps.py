"""What a plan does, step by step, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from broker.pattern.plan import Single, Variant
from broker.pattern.statistics import Seen


@dataclass(slots=True)
class Lookup:
    """An equality: the variable and the path of what is bound, and those by which is looked up."""

    bound: str
    text: str
    variable: str
    path: str


@dataclass(slots=True)
class Step:
    """What extends a choice: a place, or all that the steps `inside` choose for `places`.

    `after` and `before` are places that must end before all of these begin, or begin after all of
    these have ended; `order` are the other pairs of places of which one ends before the other
    begins. `checks` are what can be asked then. So many choices are `expected` to come of it, in
    one call; `made` counts them."""

    places: tuple[int, ...]
    inside: list[Step]
    after: list[int]
    before: list[int]
    order: list[tuple[int, int]]
    lookups: list[Lookup]
    checks: list[Seen]
    expected: float
    made: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of a variant. `counted`: it has been run, so that what has come of its steps is
    known."""

    variant: Variant
    steps: Sequence[Step]
    counted: bool = True

    def lines(self, name: Callable[[Single], str]) -> list[str]:
        """The tree, a step a line: each extends what the ones above it have chosen."""
        return [*self._lines(self.steps, name, "  ")]

    def _lines(
        self, steps: Sequence[Step], name: Callable[[Single], str], pad: str
    ) -> Iterator[str]:
        for number, step in enumerate(steps):
            word, first = "with" if number else "from", self.variant.singles[step.places[0]]
            what = "what these choose" if step.inside else name(first)
            by = f", found by {step.lookups[0].path}" if step.lookups else ""
            yield f"{pad}{word} {what}{by}: {self._counts(step)}"
            if step.inside:
                yield from self._lines(step.inside, name, pad + "  ")

    def _counts(self, step: Step) -> str:
        expected = f"{step.expected:,.0f}" if step.expected >= 10 else f"{step.expected:.2g}"
        return f"{expected} expected" + (f", {step.made:,} found" if self.counted else "")
