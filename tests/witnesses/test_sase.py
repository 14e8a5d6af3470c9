"""The broker finds what the SASE engine found, in the first events of its workloads; in all of them
in a run of its own, see `tests.witnesses.sase`."""

from __future__ import annotations

import pytest

from tests.witnesses.sase import FOLDER, WORKLOADS, compare

MOST = 12_500
"""How many events of a stream are run."""
WINDOWS = 20_000
"""How many of the streams whose windows are longer than that."""

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is missing")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "tw40k"])
def test_its_workloads(name: str) -> None:
    got, wanted = compare(name, WINDOWS if name == "tw20k" else MOST)
    assert wanted
    assert got == wanted
