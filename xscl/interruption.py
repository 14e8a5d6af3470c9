"""How one thread ends what another one computes: long loops ask now and then.

A loop that may be long says `if PENDING: check()`, which costs next to nothing while nobody wants
anything of any thread.
"""

from __future__ import annotations

import threading

PENDING: dict[int, Exception] = {}
"""By thread, the exception that its computation is to end with."""


def check() -> None:
    """Raise the exception that this thread is to end with, if there is one."""
    wanted = PENDING.get(threading.get_ident())
    if wanted is not None:
        raise wanted
