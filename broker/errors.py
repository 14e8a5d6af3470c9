"""What the library raises by itself. Errors in queries are `XsclError`."""

from __future__ import annotations


class BrokerError(Exception):
    """Something that was asked of the broker cannot be done; the message says what and why."""


class ArgumentError(BrokerError, ValueError):
    """A document, time or duration that the broker cannot take."""


class ClosedError(BrokerError, RuntimeError):
    """The broker was closed."""
