"""What a unit has observed: how many of its choices pass each conjunct."""

from __future__ import annotations

from broker.pattern.plan import Conjunct

_MEMORY = 4096
"""Questions after which older ones count half."""


class Seen:
    """How often a conjunct was asked, and held."""

    __slots__ = ("asked", "conjunct", "held", "holds")

    def __init__(self, conjunct: Conjunct) -> None:
        self.conjunct = conjunct
        self.holds = conjunct.holds
        self.asked = 0
        self.held = 0

    @property
    def selectivity(self) -> float:
        """The share that passes; a half where nothing is known."""
        return (self.held + 1) / (self.asked + 2)

    def forget(self) -> None:
        """Let what is old count less, so that drifting streams are noticed."""
        if self.asked > _MEMORY:
            self.asked //= 2
            self.held //= 2
