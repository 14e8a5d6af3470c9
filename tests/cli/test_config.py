"""`broker config check` and `show`; and how quickly commands start and end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.settings.schema import Settings, SettingsError
from broker.settings.sources import fields, leaves, line_of
from broker.text.units import FOREVER, format_duration, format_size, parse_duration, parse_size
from tests.cli.test_queries import broker

DAY = 86_400_000_000


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("BROKER_"):
            monkeypatch.delenv(name)


def problems(config: Path | None = None, **overrides: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(config, overrides)
    return str(caught.value).splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


# -- layers ----------------------------------------------------------------------------------


def test_options_count_more_than_the_environment_and_that_more_than_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[server]\nhost = "::1"\nport = 1\nmax_body = "1 MB"\n')
    monkeypatch.setenv("BROKER_SERVER__PORT", "2")
    monkeypatch.setenv("BROKER_SERVER__MAX_BODY", "2 MB")
    settings, layers = Settings.read(file, {"server.port": 3, "server.max_body": None})
    assert settings.server.host == "::1"
    assert settings.server.port == 3
    assert settings.server.max_body == 2_000_000
    origins = {name: layers.origin(("server", name)) for name in ("host", "port", "max_body")}
    assert origins == {
        "host": f"{file}:2",
        "port": "option",
        "max_body": "BROKER_SERVER__MAX_BODY",
    }
    assert layers.origin(("state",)) == "default"


def test_lists_and_tables_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_TIME__STREAMS", '{"S": "1 day", "t": "INFINITY"}')
    monkeypatch.setenv("BROKER_FEEDS__URLS", '["https://a.example/f"]')
    monkeypatch.setenv("BROKER_SERVER__HOST", "")  # empty: as if it were not there
    settings = Settings.load()
    assert settings.time.streams == {"S": DAY, "t": FOREVER}
    assert settings.feeds.urls == ("https://a.example/f",)
    assert settings.server.host == "127.0.0.1"


def test_what_the_environment_has_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_SERVER__PROT", "1")
    monkeypatch.setenv("BROKER_STAET", "x")
    monkeypatch.setenv("BROKER_TIME__STREAMS__S", "1 day")
    monkeypatch.setenv("BROKER_FEEDS__URLS", "https://a.example/f")
    # Orchestrators name variables after services; commands have variables of their own.
    monkeypatch.setenv("BROKER_PORT", "tcp://10.0.0.1:8321")
    monkeypatch.setenv("BROKER_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("BROKER_TOKEN", "t")
    assert problems() == [
        "BROKER_FEEDS__URLS: feeds.urls: must be a list",
        "BROKER_SERVER__PROT: there is no such setting; did you mean BROKER_SERVER__PORT?",
        "BROKER_STAET: there is no such setting; did you mean BROKER_STATE?",
        "BROKER_TIME__STREAMS__S: time.streams: "
        "write BROKER_TIME__STREAMS='{\"NAME\": …}', with the whole table as JSON",
    ]


def test_one_underscore_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_SERVER_PORT", "1")
    result = broker("config", "check")
    assert result.returncode == 0
    assert "BROKER_SERVER_PORT is no setting; did you mean BROKER_SERVER__PORT?" in result.stderr


def test_paths_in_a_file_are_meant_from_its_folder(file: Path) -> None:
    (file.parent / "token").write_text("abc\n")
    file.write_text('state = "data"\n[server]\ntoken_file = "token"\n[feeds]\nopml = ["/x", "y"]\n')
    settings = Settings.load(file, {"feeds.interval": "1 h"})
    assert settings.state == file.parent / "data"
    assert settings.feeds.opml == (Path("/x"), file.parent / "y")
    assert settings.server.token is not None
    assert settings.server.token.get_secret_value() == "abc"
    assert Settings.load(None, {"state": "here"}).state == Path("here")


def test_settings_are_complete_by_themselves() -> None:
    assert Settings(state=Path("x")) == Settings.load(None, {"state": "x"})


# -- problems --------------------------------------------------------------------------------


def test_all_problems_are_said_with_their_lines(file: Path) -> None:
    file.write_text(
        """\
stat = "x"
[server]
prot = 1
port = 70000
token_file = "nothing"
[time]
lateness = 5
idle = "INFINITY"
streams = { S = "1 day", T = "1 fortnight" }
[delivery]
allow_private = "maybe"
smtp = { host = "mail.example" }
[feeds]
urls = "x"
[matches]
a = 1
"""
    )
    result = broker("config", "check", file)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "broker: the settings are wrong",
        f"{file}:1: stat: there is no such setting; did you mean state?",
        f"{file}:3: server.prot: there is no such setting; did you mean port?",
        f"{file}:4: server.port: should be less than or equal to 65535, and not 70000",
        f"{file}:5: server.token_file: {file.parent / 'nothing'}: No such file or directory",
        f"{file}:7: time.lateness: a duration is a text with a unit, as '90 s', '2 days' or "
        "'INFINITY'",
        f"{file}:8: time.idle: INFINITY is too long here",
        f"{file}:9: time.streams.T: '1 fortnight' is no duration; "
        "write for instance 90 s, 2 days or INFINITY",
        f"{file}:11: delivery.allow_private: must be true or false",
        f"{file}:12: delivery.smtp.sender: a mail server is set, so the sender's address is needed",
        f"{file}:14: feeds.urls: must be a list",
        f"{file}:15: matches: there is no such setting; did you mean limits.matches?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server\n", ":1: this is no TOML: Expected ']' at the end of a table declaration"),
        ("\n[a]\n[a]\n", ":3: this is no TOML: Cannot declare ('a',) twice"),
        ("server = 5", ":1: server: must be a table"),
        ('[server]\nhost = "0.0.0.0"', ":2: server.host: other machines can reach 0.0.0.0, so set"),
        (
            '[server]\nhost = "::"\ntoken = "fifteen-letters"',
            ":3: server.token: other machines can reach ::, so a token needs 16 characters or more",
        ),
        (
            '[server]\nhost = "::"\ntoken_file = "b"',
            ":3: server.token_file: other machines can reach ::, so a token needs 16 characters",
        ),
        ('[server]\nhost = "::"\ntoken_file = "none"', ":3: server.token_file: "),
        (
            '[server]\ntoken = "a"\ntoken_file = "b"',
            ":3: server.token_file: give token or token_file",
        ),
        ('[server]\ntoken = ""', ":2: server.token: a secret is one line of printable"),
        ("[server]\ntoken = 17", ":2: server.token: must be a text in quotes"),
        ('[delivery.smtp]\nuser = "a"', ":2: delivery.smtp.user: user and password go together"),
        ('[pipeline]\nkind = "flink"', ":2: pipeline.kind: should be 'local' or 'spark'"),
        ("[delivery]\nschedule = []", ":2: delivery.schedule: must not be empty"),
        ('delivery.schedule = ["5 s", "x"]', ":1: delivery.schedule.1: 'x' is no duration"),
        ("[pipeline]\nbatch = 0", ":2: pipeline.batch: should be greater than or equal to 1"),
    ],
)
def test_one_problem(text: str, said: str, file: Path) -> None:
    (file.parent / "b").write_text("s")
    file.write_text(text)
    (problem,) = problems(file)
    assert problem.startswith(f"{file}{said}")


def test_a_file_that_is_not_there_or_no_text(file: Path) -> None:
    assert problems(file) == [f"{file}: No such file or directory"]
    file.write_bytes(b'state = "\xff"')
    assert problems(file) == [f"{file}: byte 10 is not UTF-8"]


def test_no_secret_is_in_a_problem(file: Path) -> None:
    file.write_text('[server]\ntoken = ["hunter2"]\n[delivery.smtp]\npassword = "hunter2\\n"\n')
    assert "hunter2" not in "\n".join(problems(file))


def test_a_secret_of_a_higher_layer_replaces_the_file_of_a_lower_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "t").write_text("lower")
    file.write_text('[server]\ntoken_file = "t"\n')
    monkeypatch.setenv("BROKER_SERVER__TOKEN", "higher")
    settings = Settings.load(file)
    assert settings.server.token is not None
    assert settings.server.token.get_secret_value() == "higher"


def test_secrets_that_everybody_may_read_are_warned_of(file: Path) -> None:
    secret = file.parent / "t"
    secret.write_text("abc")
    secret.chmod(0o644)
    file.write_text('[server]\ntoken_file = "t"\n[delivery.smtp]\nuser = "u"\npassword = "p"\n')
    file.chmod(0o604)
    result = broker("config", "check", file)
    assert result.returncode == 0
    assert result.stderr.splitlines()[:-1] == [
        f"warning: {secret} can be read by everybody on this machine, and it is server.token_file: "
        f"chmod 600 {secret}",
        f"warning: {file} can be read by everybody on this machine, and it holds "
        f"delivery.smtp.password: chmod 600 {file}",
    ]
    secret.chmod(0o600)
    file.chmod(0o640)
    assert broker("config", "check", file).stderr == (
        f"{file}: no errors; the state is broker-state\n"
    )


# -- show ------------------------------------------------------------------------------------


def test_show_is_toml_that_means_the_same_without_secrets(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(
        'state = "data"\n[server]\ntoken = "hunter2"\n[time]\nstreams = { "a b" = "36 h" }\n'
        '[intake]\nmin_free = "1234567 B"\n[feeds]\nurls = ["https://me:hunter2@a.example/\\"f"]\n'
    )
    monkeypatch.setenv("BROKER_RETENTION__UNDELIVERED", "2 days")
    result = broker("config", "show", file)
    assert result.returncode == 0, result.stderr
    assert "hunter2" not in result.stdout
    assert f'token = "********"                            # {file}:3' in result.stdout
    assert "# BROKER_RETENTION__UNDELIVERED" in result.stdout
    monkeypatch.delenv("BROKER_RETENTION__UNDELIVERED")
    again = file.with_name("again.toml")
    again.write_text(result.stdout.replace("********", "hunter2"))
    shown = Settings.load(again)
    monkeypatch.setenv("BROKER_RETENTION__UNDELIVERED", "2 days")
    assert shown == Settings.load(file)
    changed = broker("config", "show", file, "--changed").stdout
    assert tomllib.loads(changed).keys() == {
        *("state", "server", "time", "intake", "feeds", "retention")
    }


def test_each_setting_is_described_and_no_default_is_wrong() -> None:
    plain: dict[str, object] = {}
    for path, value, written in leaves(Settings()):
        if value is not None or written is not None:
            plain[".".join(path)] = written
    for path, described in fields(Settings):
        assert described.description, path
    # Defaults are given as numbers; as they are written they mean the same.
    assert Settings.load(None, plain) == Settings()


def test_lines_of_settings() -> None:
    text = '[ server ]\na = 1\n[delivery.smtp]\n"b" = 2\n[x]\ndelivery.c.d = 3\n# [y]\n'
    assert line_of(text, ("server", "a")) == 2
    assert line_of(text, ("server", "z")) == 1
    assert line_of(text, ("delivery", "smtp", "b")) == 4
    assert line_of(text, ("x", "delivery", "c", "d")) == 6
    assert line_of(text, ("y",)) is None


# -- units -----------------------------------------------------------------------------------


@given(st.integers(0, FOREVER))
def test_durations_are_read_as_they_are_written(value: int) -> None:
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(
    "text", ["", "x", "1 parsec", "-1 s", "1e3 s", "0.0001 ms", "9" * 50, "١ s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


def test_sizes() -> None:
    sizes = {"7": 7, "100 MB": 10**8, "1.5kb": 1500, "2 GiB": 2 << 30, "3 B": 3, "1 T": 10**12}
    assert {text: parse_size(text) for text in sizes} == sizes
    shown = {0: "0 bytes", 999: "999 bytes", 1500: "1.5 kB", 999_960: "1 MB", 10**16: "10000 TB"}
    assert {size: format_size(size) for size in shown} == shown
    for text in ("", "MB", "-1", "1 XB", "9" * 50, "1e9"):
        with pytest.raises(ValueError, match="is no size"):
            parse_size(text)


# -- starting and ending ---------------------------------------------------------------------

MAIN = "from broker.cli import main; main()"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, atexit\natexit.register(lambda: print(sorted(sys.modules), file=sys.stderr))\n"
    )
    command = [sys.executable, "-c", code + MAIN, "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "subscribe" in result.stdout
    heavy = {"duckdb", "pyarrow", "lxml", "httpx", "pydantic", "rich", "fastapi", "pyspark"}
    assert not heavy & set(json.loads(result.stderr.replace("'", '"')))


@pytest.mark.parametrize(
    ("command", "module"),
    [
        *(("run", "click"), ("run", "broker.cli.commands"), ("run", "rich.console")),
        *(("explain", "duckdb"), ("explain", "pyarrow")),
    ],
)
def test_ctrl_c_while_a_command_is_imported(command: str, module: str) -> None:
    """An interrupt at a moment of our choice: when the module is looked for."""
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""
    arguments = [sys.executable, "-c", code + MAIN, command, "--help"]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr == "broker: interrupted\n"
