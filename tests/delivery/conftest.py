"""A mailbox for each test of this directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.delivery import Mailbox
from tests.delivery.support import open_mailbox


@pytest.fixture
def clock() -> Callable[[], float]:
    """What the mailbox goes by, where a module does not set a clock of its own."""
    return time.time


@pytest.fixture
def mailbox(tmp_path: Path, clock: Callable[[], float]) -> Iterator[Mailbox]:
    with open_mailbox(tmp_path, clock) as mailbox:
        yield mailbox
