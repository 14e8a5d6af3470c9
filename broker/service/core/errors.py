"""What the service answers where it does not do what was asked. Each is one kind of answer."""

from __future__ import annotations


class ServiceError(RuntimeError):
    """The message says why, and what to do."""


class Busy(ServiceError):
    """Too much is waiting already; try again after so many seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DiskFull(ServiceError):
    """There is not enough room on the disk."""


class TooLarge(ServiceError):
    """A document is larger than any may be."""


class Draining(ServiceError):
    """The service is about to stop, and takes nothing more."""


class Starting(ServiceError):
    """The state is not open yet, or is being opened again; try again after so many seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(ServiceError):
    """There is no such thing."""

    def __init__(self, what: str, name: object) -> None:
        super().__init__(f"there is no {what} {name!r}")
        self.what = what
        self.name = name


class Conflict(ServiceError):
    """It cannot be done as things are."""


class Invalid(ServiceError):
    """What was asked makes no sense; `where` names the part, `line` counts from 1."""

    def __init__(self, message: str, where: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.where = where
        self.line = line
