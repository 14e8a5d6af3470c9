"""The errors of the service's operations; each has a response of its own in the API."""

from __future__ import annotations

import sqlite3

from broker.delivery import MailboxError
from broker.state.store import FILE_ERRORS
from feeds.spool import SpoolError

STORAGE = (sqlite3.Error, SpoolError, MailboxError, *FILE_ERRORS)
"""Errors of the state's files."""


class ServiceError(RuntimeError):
    """An operation failed; the message has the reason and what to do."""


class Busy(ServiceError):
    """The backlog is full; try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DiskFailed(ServiceError):
    """The disk has failed. Whether it is done is not known; try again after `retry_after` seconds,
    as it may be well again."""

    retry_after = 2.0


class DiskFull(ServiceError):
    """There is not enough free space on the disk."""


class TooLarge(ServiceError):
    """A document exceeds the largest size."""


class Draining(ServiceError):
    """The service is about to stop, and accepts nothing more."""


class Starting(ServiceError):
    """The state is not open, or is being reopened; try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(ServiceError):
    """The subscription, channel, feed, match or dead letter does not exist."""

    def __init__(self, what: str, name: object) -> None:
        super().__init__(f"there is no {what} {name!r}")
        self.what = what
        self.name = name


class Conflict(ServiceError):
    """The operation is impossible in the present state."""


class Invalid(ServiceError):
    """An argument is invalid; `where` names the part, `line` counts from 1."""

    def __init__(self, message: str, where: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.where = where
        self.line = line
