"""What Ctrl-C does before a command has begun."""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

INTERRUPTED = "broker: interrupted"


def leave(_: int, __: FrameType | None) -> Any:
    """Ctrl-C during imports: there is nothing to tidy up, and some modules turn KeyboardInterrupt
    into errors of their own. The command itself gets KeyboardInterrupt, as usual."""
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(130)
