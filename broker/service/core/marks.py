"""What the service works on, written before it begins: so that a crash loop ends by itself.

The file `working.json` of a state names the rows of the spool that are being matched. It is
written and not synced: it has to survive the process, not the machine. If the engine has not
committed these rows at the next start, the process has died at them. They are then matched one by
one; the one at which it dies again with care, each part of its queries marked before it begins; and
after two deaths at one query and one document that pair is set aside, see `broker/join/work.py`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from broker.join.work import Care, Group

_SIZE = 4_096
"""Bytes that are allocated at once, so that a full disk does not keep marks from being written."""


class Marks:
    """The marks of a state, from its file. `last` is the last row that the process died at, 0 for
    none, and `care` what is known about it if it was the only one."""

    def __init__(self, path: Path, position: int) -> None:
        self.last = 0
        self.care: Care | None = None
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._now: dict[str, Any] = {}
        try:
            found = _read(self._file)
            if found and found["last"] > position:
                self.last = int(found["last"])
                if found["first"] == found["last"]:
                    care = found.get("care")
                    group = found.get("group")
                    self.care = Care()
                    if care is not None:  # it was searched with care
                        self.care = Care.of(care)
                        self.care.died(None if group is None else (group[0], group[1]))
        except (OSError, ValueError, LookupError, TypeError):
            self.last = 0  # half a mark is none
        if not self.last:
            self._write({}, _SIZE)

    def begin(self, first: int, last: int, care: Care | None) -> None:
        """These rows are about to be matched."""
        self._now = {"first": first, "last": last}
        if care is not None:
            self._now["care"] = care.data()
        self._write(self._now)

    def entered(self, group: Group | None) -> None:
        """A part of the queries is about to be searched; with None, all have been."""
        self._write(self._now if group is None else self._now | {"group": group})

    def end(self) -> None:
        """Nothing is being matched any more, though the rows may not be committed."""
        self._write({})

    def close(self) -> None:
        os.close(self._file)

    def _write(self, mark: dict[str, Any], size: int = 0) -> None:
        text = json.dumps(mark) + "\n"
        with suppress(OSError):
            os.pwrite(self._file, text.ljust(size).encode(), 0)


def _read(file: int) -> dict[str, Any]:
    """The first line; behind it may be the rest of a longer one."""
    text = b""
    while b"\n" not in text and (more := os.pread(file, 1 << 20, len(text))):
        text += more
    found = json.loads(text.split(b"\n")[0] or b"{}")
    return found if isinstance(found, dict) else {}
