"""What went wrong, in one line: out of Java traces of hundreds."""

from __future__ import annotations

import re

from broker.spark.session import log_file

_PYTHON_ERROR = re.compile(r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*)$")
_CAUSE = re.compile(r"Caused by: (.*)")
_LOST = ("Answer from Java side is empty", "An error occurred while trying to connect", "refused")


class PipelineError(RuntimeError):
    """The pipeline stopped; the message is the reason, and where the log is."""


def reason(error: BaseException) -> str:
    """One line for what Spark raised: the Python error of an executor where there is one."""
    text = str(error)
    log = log_file()
    where = f" (see {log})" if log is not None else ""
    if isinstance(error, OSError) or any(sign in text for sign in _LOST):
        return f"the Java process ended unexpectedly{where}"
    lines = text.splitlines()
    if "Traceback (most recent call last)" in text:
        found = [match[1] for line in lines if (match := _PYTHON_ERROR.match(line))]
        if found:
            return f"{found[-1].strip()}{where}"
    first = next((line.strip() for line in lines if line.strip()), type(error).__name__)
    return f"{first}{where}"
