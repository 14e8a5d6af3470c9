"""The library's own exceptions. Errors in queries are `XsclError`."""

from __future__ import annotations


class BrokerError(Exception):
    """A request that the broker cannot fulfil; the message says what and why."""


class ArgumentError(BrokerError, ValueError):
    """An invalid document, time, duration or other argument."""


class ClosedError(BrokerError, RuntimeError):
    """The broker was closed."""


class NotStored(BrokerError, LookupError):
    """A document that somebody asked about is not stored; the message names it."""
