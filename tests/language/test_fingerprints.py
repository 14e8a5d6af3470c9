"""Statements like earlier ones, which are not parsed again, have the same results as if they were."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest

import xscl
from tests.oracle.generate_documents import documents
from tests.oracle.generate_queries import PREAMBLE, Maker
from xscl import ast
from xscl.syntax import fingerprints

_LITERAL = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w.-])[0-9]+(?![\w.])""")
_STRINGS = (
    *("'x'", '"x"', "''", '""', '"it\'s"', "'a \"b\"'", "'50 %'", "'%s'", "'é'", "'--'", "';'"),
    *("'a\nb'", "'2026-10-05'", "'7'", "'['"),
)
_NUMBERS = ("1", "2", "30", "7", "0", "007", "1440", "999999999999", "9999999999999999")
_LABELS = ("q", "http", "not", "a-b.c", "LET", "x'", "é", "SELECT")

STATEMENTS = [
    "{}: S//item->a[./author = 'Ann'][contains(./title, 'tide')][./link->l]"
    " FOLLOWED BY {{l = m, 1 day}} S//item->b[./link->m]",
    "{}: S//a[./b = 1 and ./c != 'x'] FOLLOWED BY {{2 weeks}} S//c[./d > 5] WITHIN 90 min",
    "{}: S//a[2][./b = 'x']->a FOLLOWED BY {{a = b, 0 s}} S//b->b",
    "{}: SELECT x/a AS c FROM S//a->x[matches(./b, 'a+')]",
    "{}: S//a->x[./b < 'x'] JOIN {{x = y, 1 h}} S//a->y[./b < 'x']",
    "{}: S//a[./b = 'x']->x JOIN {{x = y, 1 h}} S//a[./b = 'x']->y",
    "{}: S//a[./b = 'x']  -- it's a comment; with 1 and 'two'\n  PUBLISH {}",
    "{}: SELECT <p q='1'>{{x}}</p> FROM S//a->x[. = 'a']",
    "{}: (SELECT a FROM S//a->a[./b = 'x'])//c[./d = 'y']",
    "{}: S//a->x[./b = 1.5][./c = -2] WHERE x = 'a' OR x = \"b\" WITHIN 1.5 h",
    "{}: S//a[./b = 'x'][position() < 3][tokenize(./c, ',') = 'y']",
    "{}: S//a[./b = 'x'] FOLLOWED BY {{WINDOW}} T//b",
    "{}: S//a->x FOLLOWED BY {{x - 5 = y, 2 d}} S//b->y[string-length(./c) = 3]",
    "{}: S//a[./b[. = 'x' and . != 'y']]->x WHERE x > 2 AND x < 30 AND x = 7",
    "{}: S//a[./b[@c = 'x' and 7 >= @c and position() != 2]]",
    "S//a[./b = 'x']",
    "S//a[starts-with(./b, 'x')] PUBLISH out",
]


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    fingerprints.forget()
    yield
    fingerprints.forget()


def plain(node: Any) -> Any:
    """A tree as plain data, the places of its nodes too."""
    if isinstance(node, xscl.Span):
        return node.start, node.end
    if is_dataclass(node):
        parts = {each.name: plain(getattr(node, each.name)) for each in fields(node)}
        return type(node).__name__, parts
    return [*map(plain, node)] if isinstance(node, tuple) else node


def outcome(text: str) -> Any:
    """All that parsing and checking find."""
    try:
        file = xscl.parse(text)
        program = xscl.check([file])
    except xscl.XsclError as error:
        return str(error)
    queries = [
        (each.id, each.text, each.form, each.literals, dict(each.namespaces), plain(each.query))
        for each in program.queries
    ]
    return queries, [each.render() for each in program.warnings], plain(file)


def read_whole(monkeypatch: pytest.MonkeyPatch, text: str) -> Any:
    """The outcome where every statement is read."""
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "take_apart", lambda text, start: None)
        return outcome(text)


def varied(r: Random, statement: str) -> str:
    """The statement with some of its literals changed."""

    def other(found: re.Match[str]) -> str:
        if not r.randint(0, 2):
            return found[0]
        return r.choice(_STRINGS if found[0][0] in "'\"" else _NUMBERS)

    return _LITERAL.sub(other, statement)


def agrees(monkeypatch: pytest.MonkeyPatch, lead: str, statements: list[str]) -> int:
    """Each statement, after the others; how many of them were not read."""
    recalled = 0
    for statement in statements:
        text = f"{lead}{statement};\n{statement.replace(':', 'b:', 1)}"
        assert outcome(text) == read_whole(monkeypatch, text), text
        try:
            found = xscl.parse(text).statements
        except xscl.XsclError:
            continue
        recalled += sum(isinstance(each, fingerprints.Query) for each in found)
    return recalled


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_with_other_literals_means_what_it_means_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    r = Random(statement)
    texts = [
        varied(r, statement.format(f"{r.choice(_LABELS)}{n if n % 3 else ''}", f"p{n % 3}"))
        for n in range(60)
    ]
    agrees(monkeypatch, "LET WINDOW = 2 days; ", texts)


def test_random_statements_mean_what_they_mean_when_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recalled = 0
    for seed in range(10):
        r = Random(seed)
        maker = Maker(r, "full", documents(r, "full", 4))
        for number in range(6):
            statement = maker.query(f"q{number}")
            texts = [statement, *(varied(r, statement) for _ in range(6))]
            recalled += agrees(monkeypatch, PREAMBLE, texts)
    assert recalled


def test_files_of_many_statements_agree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    r = Random(7)
    right = [0, 1, 9, 10, 11]
    text = "LET WINDOW = 2 days;\n" + ";\n".join(
        STATEMENTS[r.choice(right)].format(f"q{n}", f"p{n}").replace("'x'", f"'x{r.randint(0, 9)}'")
        for n in range(200)
    )
    found = outcome(text)
    assert found == read_whole(monkeypatch, text)
    assert not isinstance(found, str), found


def test_very_many_that_differ_in_constants_are_read_once() -> None:
    statement = STATEMENTS[0]
    text = ";\n".join(
        statement.format(f"q{n}").replace("Ann", f"Ann {n}").replace("1 day", f"{n + 1} days")
        for n in range(50)
    )
    file = xscl.parse(text)
    program = xscl.check([file])
    likes = [each for each in file.statements if isinstance(each, fingerprints.Query)]
    assert len(likes) == 49  # the second one shows that there are others
    assert program.queries[40].literals == ("'Ann 40'", "'tide'", "41 days")
    assert _unmade(likes[-1])
    assert xscl.format_file(file) == xscl.format_file(xscl.parse(xscl.format_file(file)))


def _unmade(query: ast.Query) -> bool:
    """Whether nobody has asked for its tree."""
    try:
        object.__getattribute__(query, "pattern")
    except AttributeError:
        return True
    return False


@pytest.mark.parametrize(
    ("query", "most_at"),
    [
        ("S//a->x WHERE x > {0} AND x < {1}", "x < {1}"),
        ("S//a[. > {0}][./b->x][. < {1}]", ". < {1}"),
    ],
)
def test_constants_that_exclude_each_other_are_told_of_among_very_many_that_do_not(
    query: str, most_at: str
) -> None:
    bounds = [(n, 30) for n in range(10, 50)]
    text = ";\n".join(f"q{n}: " + query.format(*both) for n, both in enumerate(bounds))
    file = xscl.parse(text)
    assert [each.span.start for each in xscl.check([file]).warnings] == [
        text.index(most_at.format(least, most), text.index(query.format(least, most)))
        for least, most in bounds
        if least >= most
    ]
    likes = sum(isinstance(each, fingerprints.Query) for each in file.statements)
    assert likes == sum(least < most for least, most in bounds) - 1


def test_a_query_that_is_made_when_asked_for_is_a_query_like_any_other() -> None:
    statement = STATEMENTS[0]
    fingerprints.forget()
    first, second, third = xscl.parse(";".join(statement.format(f"q{n}") for n in "123")).statements
    assert isinstance(third, fingerprints.Query)
    assert third.label == "q3"
    fingerprints.forget()
    (alone,) = xscl.parse(statement.format("q3")).statements
    assert third == alone
    assert alone == third
    assert hash(third) == hash(alone)
    assert third != second
    assert repr(third) == repr(alone)
    assert pickle.loads(pickle.dumps(third)) == alone
    with pytest.raises(AttributeError):
        third.nothing  # noqa: B018
    assert isinstance(first, ast.Query)


def test_a_copy_with_changes_is_checked_anew() -> None:
    text = ";".join(STATEMENTS[0].format(f"q{n}") for n in "123")
    file = xscl.parse(text)
    xscl.check([file])
    *_, third = xscl.parse(text).statements
    assert isinstance(third, fingerprints.Query)
    where = xscl.parse("S//a->a WHERE nowhere = 'x'").statements[0]
    assert isinstance(where, ast.Query)
    changed = replace(third, where=where.where)
    with pytest.raises(xscl.XsclError, match="no block binds the variable nowhere"):
        xscl.check([replace(file, statements=(changed,))])
    renamed = replace(third, label="other")
    (resolved,) = xscl.check([replace(file, statements=(renamed,))]).queries
    assert resolved.text == xscl.check([xscl.parse(STATEMENTS[0].format("other"))]).queries[0].text


def test_what_is_remembered_is_bounded() -> None:
    most = 0
    for n in range(fingerprints.MOST // 2 + 100):
        xscl.parse(f"q{n}: S//a{n}[{n % 25}]; p{n}: S//b{n}[{n}]; r{n}: S//a[{n}]; s{n}: S//a[{n}]")
        most = max(most, len(fingerprints._fixed), len(fingerprints._known))
    assert fingerprints.MOST - 10 < most <= fingerprints.MOST
    assert len(fingerprints._fixed) < fingerprints.MOST // 2
