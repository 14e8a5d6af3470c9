"""The files in docs/deploy: sample settings, the systemd unit, the container file."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from broker.settings.schema import Settings
from broker.settings.sources import fields
from tests.docs.markdown import ROOT, Fence, parts
from tests.docs.test_examples import check_options

PAGE = ROOT / "docs" / "service.md"
DEPLOY = ROOT / "docs" / "deploy"


def test_the_sample_of_settings() -> None:
    text = (DEPLOY / "broker.toml").read_text()
    Settings.load(DEPLOY / "broker.toml")
    # What is commented out there is right as well.
    whole = re.sub(r"(?m)^# (\[|\w+ = )", r"\1", text)
    shown = tomllib.loads(whole)
    assert shown["delivery"]["smtp"]["password_file"]
    known = {path for path, _ in fields(Settings)}
    named: set[tuple[str, ...]] = {
        (section, name) for section, inner in shown.items() if section != "state" for name in inner
    }
    named = named - {("delivery", "smtp")} | {
        ("delivery", "smtp", name) for name in shown["delivery"]["smtp"]
    }
    assert named <= known


def test_the_unit(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DEPLOY / "broker.service").read_text())
    assert {"Unit", "Service", "Install"} == set(unit.sections())
    for name in ("ExecStart", "ExecStartPre"):
        program, *words = shlex.split(unit["Service"][name])
        assert program == "/opt/broker/.venv/bin/broker"
        check_options(words)
    if shutil.which("systemd-analyze"):
        broker = shutil.which("true")
        text = (DEPLOY / "broker.service").read_text().replace(program, str(broker))
        (tmp_path / "broker.service").write_text(text)
        result = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", tmp_path / "broker.service"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "broker.service" not in result.stderr, result.stderr


def test_the_container_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    instructions = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text))
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENV", "EXPOSE", "HEALTHCHECK",
             "STOPSIGNAL", "ENTRYPOINT", "CMD"}  # fmt: skip
    parsed_lines = [line.split(" ", 1) for line in instructions.splitlines() if line]
    assert {name for name, _ in parsed_lines} == known
    readme = next(
        p.text
        for p in parts(ROOT / "README.md")
        if isinstance(p, Fence) and "requirements.lock" in p.text
    )
    (install, *_) = [rest for name, rest in parsed_lines if name == "RUN"]
    assert readme.startswith(install), "it is installed as the README says"
    assert shlex.split(text.split("podman run", 1)[1].split("\n")[0]) == shlex.split(
        PAGE.read_text().split("podman run", 1)[1].split("\n")[0]
    )
    (environment,) = [rest for name, rest in parsed_lines if name == "ENV"]
    (tmp_path / "token").write_text("sixteen-letters-")
    for name, value in (pair.split("=", 1) for pair in environment.split()):
        if name.startswith("BROKER_"):
            monkeypatch.setenv(name, value.replace("/run/secrets", str(tmp_path)))
    settings = Settings.load()
    assert settings.server.token is not None
    assert (settings.server.host, str(settings.state)) == ("0.0.0.0", "/state")
    health = next(rest for name, rest in parsed_lines if name == "HEALTHCHECK")
    check_options(shlex.split(health.split("broker ", 1)[1].split(" >")[0]))
