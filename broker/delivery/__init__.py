"""Delivery: the mailbox (a durable log of matches), and the channels that lead out of it.

engine's outbox ──take──> Mailbox ──> DeliveryWorker ──> file, webhook, mail
                             └──────> readers: pull, server-sent events, Atom
"""

from broker.delivery.atom import atom
from broker.delivery.channels import Replaces
from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Channel, Dead, Delivered, Event, Figures, Throttle
from broker.delivery.settings import DeliverySettings, Smtp
from broker.delivery.tables import DamagedMatch, MailboxError
from broker.delivery.worker import DeliveryWorker

__all__ = [
    "Channel",
    "DamagedMatch",
    "Dead",
    "Delivered",
    "DeliverySettings",
    "DeliveryWorker",
    "Event",
    "Figures",
    "Mailbox",
    "MailboxError",
    "Replaces",
    "Smtp",
    "Throttle",
    "atom",
]
