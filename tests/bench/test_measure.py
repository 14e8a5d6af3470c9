"""The bookkeeping of the benchmarks: prefixes, tables, the results page."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench.all
import bench.measure
from bench.measure import RESULTS, Run, figures, finish, machine, table


def test_seconds_of_a_prefix_are_between_its_marks() -> None:
    result = Run("x", 0.0, 40, 8.0, {}, None, [(10, 1.0), (20, 2.0), (40, 8.0)])
    assert [result.seconds_at(n) for n in (5, 10, 15, 30, 40)] == [0.5, 1.0, 1.5, 5.0, 8.0]
    assert result.rate == 5.0


def test_a_table_is_markdown() -> None:
    text = table(("n", "rate"), [("10", "1,000"), ("100", "7")])
    assert text == "| n   |  rate |\n| :-- | ----: |\n| 10  | 1,000 |\n| 100 |     7 |"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (45.67, "45.7"),
        (1.234, "1.23"),
        (0.01234, "0.012"),
        (0.000095, "0.000095"),
    ],
)
def test_numbers_show_what_matters(value: float, text: str) -> None:
    assert figures(value) == text


def test_the_machine_is_described() -> None:
    assert "cores" in machine()
    assert "duckdb" in machine()


def test_every_benchmark_is_found_and_asks_its_question() -> None:
    found = bench.all.benchmarks()
    assert {"main_job", "constants", "rss", "distinct", "technical"} <= found.keys()
    assert "all" not in found
    assert all(bench.all.question(file).endswith("?") for file in found.values())


def test_every_result_has_its_answer_and_every_answer_its_result() -> None:
    results = {file.stem for file in RESULTS.glob("*.md")}
    assert {file.stem for file in bench.all.NOTES.glob("*.md")} == results
    assert results <= bench.all.benchmarks().keys()
    assert all(bench.all.note(name)[0].endswith(".") for name in results)


def test_results_say_what_was_measured_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.measure, "RESULTS", tmp_path)
    finish("rss", ["one", "two"], True, "note")
    assert not any(tmp_path.iterdir())
    finish("rss", ["one", "two"], False, "note")
    saved = (tmp_path / "rss.md").read_text()
    note, where, *parts = saved.strip().split("\n\n")
    assert (note, parts) == ("note", ["one", "two"])
    assert "load" in where
    assert capsys.readouterr().out.count("one") == 2


def test_the_page_holds_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rss.md").write_text("a table\n")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "rss.md").write_text("Many\nitems.\n\nAnd why.\n")
    monkeypatch.setattr(bench.all, "RESULTS", tmp_path)
    monkeypatch.setattr(bench.all, "NOTES", notes)
    monkeypatch.setattr(bench.all, "PAGE", tmp_path / "RESULTS.md")
    bench.all.assemble()
    page = (tmp_path / "RESULTS.md").read_text()
    assert "## rss" in page
    assert page.index("Many items.") < page.index("## rss") < page.rindex("Many items.")
    assert page.index("And why.") < page.index("a table")
    assert "## constants" not in page
