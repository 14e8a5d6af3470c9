"""`broker completion`: the words that shells offer at a Tab, and how quickly."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from broker.cli.commands import cli
from broker.cli.completion import NAMES
from tests.cli.serving import Serving, environment, queries, serving
from tests.cli.terminal import BROKER, terminal
from tests.waiting import PATIENCE

FEED = "http://127.0.0.1:9/a?x=1&y=$(touch${IFS}made)"
COMPLETE = """
source ./script; COMP_LINE=$1; COMP_POINT=${#1}; _broker; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    place = tmp_path_factory.mktemp("completion")
    with serving(place / "state") as running:
        running.done("subscribe", queries(place, "news-a: S//a; news-b: S//b; other: S//c"))
        running.done("channels", "add", "desk", "--subscription", "news-a", "--pull")
        running.done("feeds", "add", FEED, "--allow-private")
        (place / "script").write_text(running.done("completion", "bash"))
        (place / "fish").write_text(running.done("completion", "fish"))
        yield running


def asked(line: str, here: Serving, state: str = "state", shell: str = "bash") -> list[str]:
    """What a shell offers for a line, in order."""
    command = ["bash", "-c", COMPLETE, "bash", line]
    if shell == "fish":
        told = f"source fish; complete -C '{line}'"
        command = ["fish", "--no-config", "-c", told]
    path = f"{Path(BROKER).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        command,
        cwd=here.state.parent,
        env=environment(state=state) | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in result.stderr
    return [line.partition("\t")[0] for line in result.stdout.splitlines() if line]


CASES = [
    ("broker pa", ["pause"]),
    ("broker channels re", ["remove", "reset", "resume"]),
    ("broker channels show --sec", ["--secrets"]),
    ("broker list --status ", ["active", "paused", "suspended"]),
    ("broker completion ", ["bash", "fish", "zsh"]),
    ("broker pause news", ["news-a", "news-b"]),
    ("broker channels add x --subscription o", ["other"]),
    ("broker channels show ", ["desk"]),
]


@pytest.mark.parametrize(("line", "offered"), CASES)
def test_bash_completes(line: str, offered: list[str], here: Serving) -> None:
    assert sorted(asked(line, here)) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "offered"), CASES)
def test_fish_completes(line: str, offered: list[str], here: Serving) -> None:
    assert sorted(asked(line, here, shell="fish")) == offered


def test_an_address_is_one_word_and_nothing_in_it_is_run(here: Serving) -> None:
    assert asked("broker feeds pause http", here) == [
        r"http://127.0.0.1:9/a\?x=1\&y=\$\(touch\$\{IFS\}made\)"
    ]
    (rest,) = asked("broker feeds pause http:", here)
    assert rest.startswith("//127.0.0.1:9/a")
    assert not (here.state.parent / "made").exists()


def test_a_state_that_is_named_on_the_line_counts(here: Serving) -> None:
    assert asked("broker pause ", here, state="nowhere") == []
    assert asked("broker pause --state state oth", here, state="nowhere") == ["other"]


def test_names_are_told_at_once(here: Serving) -> None:
    # The least of several, by the clock of the processor: other tests run beside this one.
    spent = []
    for _ in range(5):
        before = os.times()
        assert asked("broker pause news", here) == ["news-a", "news-b"]
        after = os.times()
        spent.append(sum(after[2:4]) - sum(before[2:4]))
    assert min(spent) < 0.2


def test_a_real_bash(here: Serving) -> None:
    where = f"{Path(BROKER).parent}:{os.environ['PATH']}"
    place = here.state.parent
    with terminal(
        "bash --norc -i", cwd=place, columns=200, PATH=where, BROKER_STATE="state"
    ) as shell:
        shell.type('eval "$(broker completion bash)"; echo rea""dy\n')
        shell.until("ready")
        shell.type("broker chan\tsh\td\t")
        shell.until("broker channels show desk")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_a_real_zsh(here: Serving) -> None:
    where = f"{Path(BROKER).parent}:{os.environ['PATH']}"
    place = here.state.parent
    with terminal("zsh -f -i", cwd=place, columns=200, PATH=where, BROKER_STATE="state") as shell:
        shell.type("autoload -Uz compinit; compinit -u -D\n")
        shell.type('eval "$(broker completion zsh)"; echo rea""dy\n')
        shell.until("ready")
        shell.type("broker channels sh\t")
        shell.until("channels show")
        shell.type("d\t")
        shell.until("desk")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_reads_its_script(shell: str, here: Serving) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = here.state.parent / ("fish" if shell == "fish" else "script")
    assert subprocess.run([shell, "-n", script], check=False).returncode == 0


@pytest.mark.parametrize("path", NAMES)
def test_what_is_completed_with_names_is_a_command(path: str) -> None:
    command: click.Command | None = cli
    for word in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    assert any(isinstance(parameter, click.Argument) for parameter in command.params)
