"""Readiness of the service. In: its figures. Out: the reasons why it is not ready."""

from __future__ import annotations

from dataclasses import dataclass

from broker.model import MICROSECONDS
from broker.service.core.answers import ServiceFigures
from broker.text.units import format_size
from xscl.syntax.durations import format_microseconds


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why the service is not ready; `code` is for programs."""

    code: str
    message: str


_STATES = {
    "starting": "the state is being opened",
    "draining": "the service finishes what it has begun and stops",
    "stopped": "the service has stopped",
}


STALLED = 60 * MICROSECONDS
"""Documents that have waited for so long, in microseconds, while none was matched, are too many."""


def stalled(figures: ServiceFigures) -> int:
    """For how long documents have waited while none was matched, in microseconds; 0 if none
    waits."""
    if not figures.spool.backlog:
        return 0
    moved = max(figures.pipeline.last_batch or 0, figures.started, figures.spool.oldest or 0)
    return max(0, figures.at - moved)


def reasons(figures: ServiceFigures, min_free: int) -> list[Reason]:
    """Why the service should not be sent documents now; empty if it is ready.

    `min_free`: bytes of free disk space below which no document is accepted.
    """
    result: list[Reason] = []
    if figures.state in _STATES:
        result.append(Reason(figures.state, _STATES[figures.state]))
    if figures.pipeline.failure is not None:
        result.append(Reason("pipeline-failing", figures.pipeline.failure))
    if figures.unstored is not None:
        result.append(Reason("intake-failing", f"documents cannot be stored: {figures.unstored}"))
    backlog, still = figures.spool.backlog, stalled(figures)
    if figures.state == "running" and still > STALLED:
        waited = format_microseconds(still // MICROSECONDS * MICROSECONDS)
        result.append(
            Reason("stalled", f"no document was matched for {waited}, and {backlog:,} wait")
        )
    if figures.disk_free < min_free:
        free, least = format_size(figures.disk_free), format_size(min_free)
        result.append(
            Reason("disk-full", f"{free} can be written to the state directory, {least} must be")
        )
    return result
