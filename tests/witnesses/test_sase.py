"""The broker finds what the SASE engine found, in the first events of its workloads; in all of them
in a run of its own, see `tests.witnesses.sase`."""

from __future__ import annotations

import pytest

from tests.witnesses.sase import FOLDER, WORKLOADS, compare

MOST = 12_500
"""How many events of a stream are run."""
RISING = 6_000
"""How many where a run of any length begins with nearly every event."""
WINDOWS = 20_000
"""How many of the streams whose windows are longer than that."""

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is missing")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "tw40k"])
def test_its_workloads(name: str) -> None:
    most = {"tw20k": WINDOWS, "qts2-p1": RISING, "Q1": RISING}
    got, wanted = compare(name, most.get(name, MOST))
    assert wanted
    assert got == wanted
