"""Every fenced block of the README and of docs/ is run.

xscl                    is parsed, checked and compiled, without errors and without warnings
xscl warns=CODE         is accepted with this warning (several: parted by commas)
xscl fails=CODE         is refused with these errors; a `text` block behind it is what is shown
xml                     documents (see `running`), for the queries before and behind it
text                    behind `xscl` and documents: the matches
python                  runs
json                    has the keys of a match
console                 `broker` commands: `check`, `explain`, `fmt`, and what is shown of those
                        with `--documents` run, on the files of `running.files_of`; options of
                        others exist
sh                      `broker` commands and requirements files in it exist
ebnf                    the grammar; see test_reference
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import click
import pytest

from broker import Document, Match
from broker.cli.commands import cli
from broker.model import DocumentRef
from tests.command import run as run_command
from tests.docs.markdown import PAGES, ROOT, Fence, Heading, Table, parts
from tests.docs.running import compile_all, files_of, read_documents, run, told
from tests.waiting import PATIENCE
from xscl import XsclError

LANGUAGES = {"console", "ebnf", "json", "python", "sh", "text", "xml", "xscl"}


def blocks(*languages: str) -> list[object]:
    return [
        pytest.param(part, page, id=f"{page.name}:{part.line}")
        for page in PAGES
        for part in parts(page)
        if isinstance(part, Fence) and part.language in languages
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [
        f"{page.name}:{part.line}"
        for part in parts(page)
        if isinstance(part, Fence)
        and (part.language not in LANGUAGES or (part.note and part.language != "xscl"))
    ]
    assert not unknown


def noted(fence: Fence, key: str) -> list[str]:
    found = re.fullmatch(rf"{key}=(\S+)", fence.note)
    return found[1].split(",") if found else []


@pytest.mark.parametrize(("fence", "page"), blocks("xscl"))
def test_queries(fence: Fence, page: Path) -> None:
    assert re.fullmatch(r"(?:(?:warns|fails)=\S+)?", fence.note)
    failures = noted(fence, "fails")
    if failures:
        with pytest.raises(XsclError) as caught:
            compile_all(fence.text)
        assert [d.code for d in caught.value.diagnostics] == failures
        return
    program, warnings = compile_all(fence.text)
    assert warnings == noted(fence, "warns")
    assert program.queries or "LET" in fence.text


# -- queries, documents, matches -------------------------------------------------------------


def examples() -> list[object]:
    """Each `text` block with the query and the documents before it, in its section."""
    found: list[object] = []
    for page in PAGES:
        query: Fence | None = None
        documents: Fence | None = None
        for part in parts(page):
            match part:
                case Heading():
                    query = documents = None
                case Fence(language="xscl"):
                    query = part
                case Fence(language="xml"):
                    documents = part
                case Fence(language="text") if query is not None:
                    place = f"{page.name}:{part.line}"
                    found.append(pytest.param(query, documents, part, id=place))
    return found


@pytest.mark.parametrize(("query", "documents", "text"), examples())
def test_what_comes_out(query: Fence, documents: Fence | None, text: Fence) -> None:
    if noted(query, "fails"):
        with pytest.raises(XsclError) as caught:
            compile_all(query.text, "mine.xscl")
        assert str(caught.value) + "\n" == text.text
        return
    assert documents is not None, "no documents in this section"
    expected, found = told(query.text, read_documents(documents.text), text.text)
    assert found == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_documents_is_used(page: Path) -> None:
    """Documents that nothing is asked of would be an example that cannot fail."""
    waiting: Fence | None = None
    for part in parts(page):
        if isinstance(part, Fence) and part.language == "xml":
            assert waiting is None, f"{page.name}:{waiting.line} is not used"
            waiting = part
        elif isinstance(part, Table) or (
            isinstance(part, Fence)
            and (part.language == "text" or ".jsonl\n" in part.text or ".jsonl " in part.text)
        ):
            waiting = None
    assert waiting is None, f"{page.name}:{waiting.line} is not used"


# -- other languages -------------------------------------------------------------------------


@pytest.mark.parametrize(("fence", "page"), blocks("python"))
def test_python(fence: Fence, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(fence.text, f"{page.name}:{fence.line}", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("fence", "page"), blocks("json"))
def test_json_is_a_match(fence: Fence, page: Path) -> None:
    """Values are elided, keys are not."""
    document = DocumentRef("d", "S", 0, "Title", "https://d.example", "Feed")
    match = Match("i", "q", None, 0, 0, (document,), {}, (), "<result/>").to_json()
    shown = json.loads(fence.text)
    assert shown.keys() == match.keys()
    assert {k: type(v) for k, v in shown.items()} == {k: type(v) for k, v in match.items()}
    for each in shown["documents"]:
        assert each.keys() == match["documents"][0].keys()


def broker(*args: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return run_command(args, input=text, cwd=cwd, timeout=PATIENCE)


def check_options(words: list[str]) -> None:
    """That a command exists, in a group or not, with all options that it is given."""
    command: click.Command = cli
    known: set[str] = set()
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            inner = command.get_command(click.Context(command), word)
            assert inner is not None, word
            command = inner
            known = {name for each in command.params for name in each.opts + each.secondary_opts}
        elif word.startswith("-") and word != "-":
            assert word in known, f"{command.name} {word}"


@pytest.mark.parametrize(("fence", "page"), blocks("console"))
def test_commands(fence: Fence, page: Path, tmp_path: Path) -> None:
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for said in re.split(r"(?m)^\$ ", fence.text)[1:]:
        line, _, output = said.partition("\n")
        echoed, _, line = line.rpartition(" | ")
        program, *command = shlex.split(line)
        assert program == ".venv/bin/broker", line
        check_options(command)
        if command[0] in ("check", "explain", "fmt") or (output and "--documents" in command):
            text = "".join(f"{text}\n" for text in shlex.split(echoed)[1:])
            result = broker(*command, cwd=tmp_path, text=text)
            assert result.stdout + result.stderr == output
        else:
            assert not output, "the output of this command is not checked"


@pytest.mark.parametrize(("fence", "page"), blocks("sh"))
def test_shell(fence: Fence, page: Path) -> None:
    """These install things, so they are not run; what they name is there."""
    words = shlex.split(fence.text.replace("&&", " "))
    for flag, name in pairwise(words):
        if flag == "-r":
            assert (ROOT / name).exists(), name
        if flag.endswith("/broker"):
            check_options([name])
        if flag == "-m" and name not in ("pip", "venv"):
            assert (ROOT / name / "__main__.py").exists(), name


# -- the checks themselves -------------------------------------------------------------------


def test_a_wrong_expectation_is_seen() -> None:
    documents = [Document("d1", xml="<a><b>1</b></a>"), Document("d2", xml="<a><b>2</b></a>")]
    query = "q: SELECT x FROM S//b->x[. = 1]"
    assert len(run(query, documents)[0]) == 1
    for text in ("no match\n", "q: d2\n", "q: d1 | x = 2\n", "q: d1\nq: d1\n", "<result/>\n"):
        expected, found = told(query, documents, text)
        assert expected != found, text
    expected, found = told(query, documents, "q: d1 | x = 1\n")
    assert expected == found
