"""Log lines: their fields, and that they contain no secrets."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from broker.text import logs


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    out = io.StringIO()
    yield out
    root.handlers[:], root.level = before
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_a_log_line_has_stable_fields(log: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # as a server leaves it
    with warnings.catch_warnings():
        logs.configure("info", "auto", io.StringIO())  # whose hook for warnings is gone after this
    logs.configure("info", "auto", log)  # no terminal, so JSON
    structlog.get_logger("broker.service").info("batch committed", documents=3, stage={"join": 1.5})
    structlog.get_logger("broker.service").debug("not shown")
    logging.getLogger("uvicorn.error").info("Started %d", 5, extra={"color_message": "x"})
    logging.getLogger("httpx").info("HTTP Request: GET https://a.example")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    try:
        raise ValueError("é \ud800")
    except ValueError:
        structlog.get_logger("broker.x").exception("failed")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [list(line)[:4] for line in lines] == [["time", "level", "logger", "event"]] * 4
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("info", "broker.service"),
        ("info", "uvicorn.error"),
        ("warning", "py.warnings"),
        ("error", "broker.x"),
    ]
    assert lines[0]["documents"] == 3
    assert lines[0]["stage"] == {"join": 1.5}
    assert lines[0]["time"].endswith("Z")
    assert set(lines[1]) == {"time", "level", "logger", "event"}
    assert "DeprecationWarning: old" in lines[2]["event"]
    assert "ValueError: é \ud800" in lines[3]["exception"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_logged(form: str, log: io.StringIO) -> None:
    logs.configure("debug", form, log)  # type: ignore[arg-type]
    told = structlog.get_logger("broker.x")
    told.info("asked", token="hunter2", headers={"Authorization": "hunter2"}, keys=1)
    told.info("Bearer hunter2", url="https://me:hunter2@a.example/f?key=hunter2&n=1")
    told.info(
        "made", text=["whsec_hunter2=", ("Basic hunter2",)], error=ValueError("://a:hunter2@b")
    )
    logging.getLogger("x").error("cannot fetch %s", "https://me:hunter2@a.example/")
    try:
        raise RuntimeError("https://me:hunter2@a.example/")
    except RuntimeError:
        told.exception("failed")
    output = log.getvalue()
    assert "hunter2" not in output
    assert output.count(logs.HIDDEN) >= 9
    assert "a.example/f" in output
    assert "n=1" in output
