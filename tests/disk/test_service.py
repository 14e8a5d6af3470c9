"""A service whose disk fails for a while: it says so, is not ready, and goes on by itself."""

from __future__ import annotations

import errno
import json
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.crash.plain import Plain
from tests.disk.interception import possible

pytestmark = pytest.mark.skipif(possible() is not None, reason=possible() or "")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("spool.sqlite", errno.EIO),
        ("broker.duckdb", errno.ENOSPC),
        ("mailbox.sqlite", errno.EIO),
        ("proof", errno.ENOSPC),
    ],
)
def test_a_service_goes_on_after_its_disk_has_failed(tmp_path: Path, name: str, error: int) -> None:
    order = tmp_path / "disk"
    with Plain(tmp_path, intake={"min_free": "1 B"}) as plain:
        served = plain.served
        served.start(disk=str(order))
        plain.subscribe()
        plain.posted(range(5))
        growing = order.with_suffix(".new")
        growing.write_text(json.dumps([error, name]))
        growing.rename(order)
        numbers = count(5)
        accepted: list[int] = []

        def is_not_ready() -> bool:
            number = next(numbers)
            status = plain.post([number])
            if status == 202:
                accepted.append(number)
            else:
                assert status in (503, 507), status
            return served.http.get("/health/ready").status_code == 503

        plain.wait(is_not_ready)
        reasons = served.http.get("/health/ready").json()
        assert served.http.get("/health/live").status_code == 200
        order.unlink()
        plain.wait(lambda: served.http.get("/health/ready").status_code == 200)
        more = next(numbers)
        plain.wait(partial(_posted, plain, more))
        plain.drained()
        served.kill()
        served.start()
        plain.drained()
        found = plain.found()
        assert len(set(found)) == len(found)
        assert {*range(5), *accepted, more} <= set(found), reasons
        assert plain.letters() == []
        assert served.stop() == 0


def _posted(plain: Plain, number: int) -> bool:
    return plain.post([number]) == 202
