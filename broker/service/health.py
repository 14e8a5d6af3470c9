"""Whether the service does its work, and if not, why. In: its figures. Out: reasons."""

from __future__ import annotations

from dataclasses import dataclass

from broker.service.core.answers import ServiceFigures
from broker.text.units import format_size


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that keeps the service from working; `code` for programs."""

    code: str
    message: str


_STATES = {
    "starting": "the state is being opened",
    "draining": "the service finishes what it has begun and stops",
    "stopped": "the service has stopped",
}


def reasons(figures: ServiceFigures, min_free: int) -> list[Reason]:
    """Why the service should not be sent anything now; none where it is well.

    `min_free`: bytes below which no document is accepted.
    """
    found: list[Reason] = []
    if figures.state in _STATES:
        found.append(Reason(figures.state, _STATES[figures.state]))
    if figures.pipeline.failure is not None:
        found.append(Reason("pipeline-failing", figures.pipeline.failure))
    if figures.disk_free < min_free:
        free, least = format_size(figures.disk_free), format_size(min_free)
        found.append(
            Reason("disk-full", f"{free} can be written to the state directory, {least} must be")
        )
    return found
