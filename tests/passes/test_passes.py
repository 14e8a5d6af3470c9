"""Each pass of the language, by pairs of input and output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.passes.pairs import Pair, read, renewed
from tests.passes.rendering import PASSES

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", PASSES)
def test_a_pass(name: str, golden: Golden) -> None:
    path = HERE / f"{name}.txt"
    golden(path, renewed(read(path), PASSES[name]))


def test_every_file_of_pairs_is_of_a_pass() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(PASSES)


def test_pairs_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("# of all\n\n# one\na\n=>\nA\n\n\nb\nc\n=>\n")
    pairs = list(read(path))
    assert pairs == [
        Pair(("# of all",), "", ""),
        Pair(("# one",), "a", "A"),
        Pair((), "b\nc", ""),
    ]
    assert renewed(iter(pairs), str.upper) == "# of all\n\n# one\na\n=>\nA\n\nb\nc\n=>\nB\nC\n"


@pytest.mark.parametrize("text", ["a\n", "# b\n=>\nc\n", "a\n\n=>\nb\n"])
def test_what_is_no_pair_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"pairs\.txt:1: a pair is"):
        list(read(path))
