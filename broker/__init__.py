"""The XSCL broker: subscriptions that correlate XML documents, and their matches.

from broker import Broker, Document

broker = Broker()
broker.subscribe("pair: S//book->b[./title->t] FOLLOWED BY {t=u, 7 days} S//blog->p[./title->u]")
matches = broker.process([Document(id="d1", timestamp=0.0, xml="<book>...</book>")])
"""

from broker.broker import Broker
from broker.model import DeadLetter, Document, DocumentRef, Match
from xscl.errors import XsclError

__all__ = ["Broker", "DeadLetter", "Document", "DocumentRef", "Match", "XsclError"]
