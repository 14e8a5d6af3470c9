"""The XSCL broker: subscriptions that correlate XML documents, and their matches.

from broker import Broker, Document

broker = Broker()
broker.subscribe("pair: S//book->b[./title->t] FOLLOWED BY {t=u, 7 days} S//blog->p[./title->u]")
matches = broker.process([Document(id="d1", timestamp=0.0, xml="<book>...</book>")])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.model import DeadLetter, Document, DocumentRef, Match
    from xscl.errors import XsclError

_HOMES = {
    "Broker": "broker.broker",
    "DeadLetter": "broker.model",
    "Document": "broker.model",
    "DocumentRef": "broker.model",
    "Match": "broker.model",
    "XsclError": "xscl.errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: executors need stage 1 alone, not DuckDB."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = ["Broker", "DeadLetter", "Document", "DocumentRef", "Match", "XsclError"]
