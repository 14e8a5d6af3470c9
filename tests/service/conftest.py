"""What all tests of the service share."""

from __future__ import annotations

import pytest

from broker.text import logs


@pytest.fixture(autouse=True, scope="package")
def plain_logs() -> None:
    """As the service logs; on a terminal the traces would take seconds to be made pretty."""
    logs.configure("info", "json")
