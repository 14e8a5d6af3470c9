"""One service for the tests that need nothing special of it: each has streams and names of its
own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.serving import Serving, serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("service") / "state") as running:
        yield running
