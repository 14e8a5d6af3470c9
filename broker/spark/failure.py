"""What went wrong, in one line: out of Java traces of hundreds."""

from __future__ import annotations

import re

from py4j.protocol import Py4JNetworkError

_PYTHON_ERROR = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*)$")


_GONE = "the Java process ended unexpectedly"


def reason(error: BaseException) -> str:
    """One line for what Spark raised: the Python error of an executor where there is one."""
    text = str(error)
    if isinstance(error, OSError | Py4JNetworkError):
        return _GONE
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        found = [match[1] for line in lines if (match := _PYTHON_ERROR.match(line))]
        if found:
            return found[-1]
    if lines and lines[0].startswith("An error occurred while calling"):
        # Without more it had no time to say what.
        return lines[1].lstrip(": ") if len(lines) > 1 else _GONE
    return lines[0] if lines else type(error).__name__
