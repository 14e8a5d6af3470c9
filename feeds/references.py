"""References to documents in the log of a spool, which stand where else a document would.

A reference has a few bytes and begins with one, 1, with which no document begins, so one column may
hold either. References are ordered by the rows of the log.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_FORM = struct.Struct(">BqIII")
_MARK = 1
"""The first byte. Text in any encoding begins with another one."""
_MARKED = bytes([_MARK])


class Reference(NamedTuple):
    """Where a document is: the number of the row of the log, the place of its first byte there, how
    many they are, and their checksum."""

    seq: int
    begin: int
    size: int
    sum: int

    def packed(self) -> bytes:
        return _FORM.pack(_MARK, *self)

    @classmethod
    def of(cls, packed: bytes) -> Reference:
        return cls._make(_FORM.unpack(packed)[1:])


def is_reference(xml: bytes | None) -> bool:
    """Whether this stands where a document would."""
    return xml is not None and xml[:1] == _MARKED
