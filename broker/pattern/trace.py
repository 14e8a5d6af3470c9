"""What stood in the way of matches, noted where it is decided; for `broker why`."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from broker.pattern.instances import Instance
from broker.pattern.plan import Absence
from broker.pattern.steps import Planned

_PLANS = 5
"""So many plans are noted."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """What would be a match. `absence` is the NOT that forbids it, and `by` what it forbids; none
    of these if it looks back to before the query was registered, where nothing is known."""

    instance: Instance
    absence: Absence
    by: Sequence[Instance]


@dataclass(slots=True)
class Trace:
    """The blocked ones, each once, and the plans that were made. `rest` is called now and then, so
    that who works beside may go on."""

    rest: Callable[[], object] = lambda: None
    blocked: dict[object, Blocked] = field(default_factory=dict)
    plans: list[Planned] = field(default_factory=list)

    def plan(self, planned: Planned) -> None:
        if len(planned.steps) > 1 and len(self.plans) < _PLANS:
            self.plans.append(planned)

    def block(self, instance: Instance, absence: Absence, by: Sequence[Instance]) -> None:
        """Note one; the same documents may be blocked by the nodes of one choice only."""
        self.blocked[id(absence), *map(id, instance.rows)] = Blocked(instance, absence, by)

    def matched(self, found: Container[object], identity: Callable[[Instance], object]) -> None:
        """Forget what is a match nevertheless, with other nodes of its documents, and keep what is
        left by documents."""
        left: dict[object, Blocked] = {}
        for each in self.blocked.values():
            if identity(each.instance) not in found:
                documents = tuple([row.doc for row in each.instance.rows])
                left[documents, id(each.absence)] = each
        self.blocked = left
