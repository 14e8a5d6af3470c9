"""Whether the tokens of a state are as new as they were, found out at each start.

In: their open file, and the proof of how many changes it had (`broker/state/proof.py`). Out: an
event if it has less.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from broker.service.access.access import FILE, Access
from broker.service.core.agreement import LOST
from broker.state.proof import Proof, Proven

_log = structlog.get_logger(__name__)


def agree_access(access: Access, proof: Proof, tell: Callable[[str, str], object]) -> None:
    """Compare the log of changes with what is proven of it; from now on its entries are noted.
    `tell` records an event, of a kind and with a text."""
    proven, last = (proof.found or Proven()).entry, access.log.last()
    if last < proven:
        text = (
            f"{FILE} is missing, or older than it was: the last {proven - last:,} entries of its "
            "log of changes are gone. Tokens that were revoked since may be taken again, others "
            "are gone, and who has which subscriptions: see broker tokens list, or restore a backup"
        )
        _log.warning(LOST, text=text)
        tell(LOST, text)
        access.log.skip_to(proven)
    proof.note(entry=max(proven, last))
    access.log.on_entry = lambda number: proof.note(entry=number)
