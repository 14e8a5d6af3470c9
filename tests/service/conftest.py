"""What all tests of the service share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.text import logs
from tests.service.desk import Desk


@pytest.fixture(autouse=True, scope="package")
def plain_logs() -> None:
    """As the service logs; on a terminal the traces would take seconds to be made pretty."""
    logs.configure("info", "json")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "state")
    yield desk
    desk.core.close()
