"""What several tests of feeds ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from feeds.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "state" / "spool.sqlite")
