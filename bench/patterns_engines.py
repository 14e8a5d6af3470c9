"""What do event patterns cost here, in Flink, in SQL by hand, and in Python by hand?

    python -m bench.patterns_engines [--quick | --setup]

Six questions about the same quotes: three prices in order, all of them or each with the next; two
with NOT another one between them; two with a group between them, whose elements are above the
average of those before; the NEXT dearer one. Asked once of all symbols, and by 1,000 queries that
have a symbol and bounds of their own. Beside this broker: MATCH_RECOGNIZE of Flink, if it is set up
(`python -m bench.patterns_engines --setup`), statements of DuckDB, and closures of Python. All find the same
matches, which is asserted. Events per CPU second, child processes counted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import flink, pattern_scripts, pattern_sql
from bench.measure import finish, parser, table
from bench.pattern_rows import (
    Asked,
    Block,
    Match,
    Quote,
    bars,
    compiled,
    head,
    quotes,
    rate,
    step,
)
from broker import Broker, Document

_WINDOW = 1_800
_MANY = 1_000
_SYMBOLS = 200


@dataclass(frozen=True, slots=True)
class Question:
    """`text` has a place for each block. `flink` is its PATTERN with its DEFINE, None: there is
    none that finds the same."""

    name: str
    text: str
    blocks: tuple[Block, ...]
    script: pattern_scripts.Maker
    sql: bool = True
    flink: flink.Recognize | None = field(default=None)


_LOW, _HIGH = Block(0, 19, "s0 p0"), Block(80, 99, "s1 p1")
_MIDDLE = Block(10, 99, "s1 p1")
_THREE = (_LOW, _HIGH, Block(0, 19, "s2 p2"))
_GROUP = (Block(50, 99, "s0 p0"), _MIDDLE, Block(0, 9, "s2 p2"))
QUESTIONS = (
    Question(
        "sequence",
        "{0} FOLLOWED BY {1} FOLLOWED BY {2} WHERE s0 = s1 AND s1 = s2 WITHIN 30 min",
        _THREE,
        pattern_scripts.sequence,
    ),
    Question(
        "next, next",
        "{0} NEXT {{s0 = s1}} {1} NEXT {{s1 = s2}} {2} WITHIN 30 min",
        _THREE,
        pattern_scripts.next_next,
        flink=flink.Recognize(
            "A X* B Y* C",
            "A AS {0}, X AS NOT ({1}), B AS {1}, Y AS NOT ({2}), C AS {2}",
            "C",
            "B",
        ),
    ),
    Question(
        "not in the middle",
        "{0} FOLLOWED BY NOT {1} FOLLOWED BY {2} WHERE s0 = s1 AND s0 = s2 WITHIN 30 min",
        (Block(80, 99, "s0 p0"), Block(0, 39, "s1 p1"), Block(0, 19, "s2 p2")),
        pattern_scripts.lacking,
        flink=flink.Recognize("A X* C", "A AS {0}, X AS NOT ({1}), C AS {2}", "C"),
    ),
    Question(
        "group, longest",
        "{0} FOLLOWED BY ({1})+ FOLLOWED BY {2}"
        " WHERE s0 = s1 AND s0 = s2 AND p1 > avg(p1) WITHIN 30 min",
        _GROUP,
        pattern_scripts.longest,
        sql=False,
    ),
    Question(
        "group, contiguous",
        "{0} FOLLOWED BY ({1})+ FOLLOWED BY {2} PARTITION BY ./s USING PARTITION CONTIGUITY"
        " WHERE p1 > avg(p1) WITHIN 30 min",
        _GROUP,
        pattern_scripts.contiguous,
        flink=flink.Recognize(
            "A B+ C",
            "A AS {0}, C AS {2},"
            " B AS {1} AND (LAST(B.p; 1) IS NULL OR B.p > AVG(CAST(B.p AS DOUBLE)))",
            "C",
            "B",
        ),
    ),
    Question(
        "next, dearer",
        "{0} NEXT {{s0 = s1 AND p1 > p0, 30 min}} {1}",
        (Block(0, 99, "s0 p0"), Block(0, 99, "s1 p1")),
        pattern_scripts.dearer,
        flink=flink.Recognize("A X* B", "A AS {0}, X AS X.p <= A.p, B AS {1} AND B.p > A.p", "B"),
    ),
)


def one(question: Question) -> list[Asked]:
    return [Asked("", question.blocks)]


def many(question: Question, count: int) -> list[Asked]:
    """Queries that differ in their symbols and bounds."""
    return [
        Asked(f"S{n % _SYMBOLS}", tuple([each.moved(n // _SYMBOLS) for each in question.blocks]))
        for n in range(count)
    ]


def written(question: Question, asked: Asked) -> str:
    return question.text.format(*(each.text(asked.symbol) for each in asked.blocks))


def same(
    question: Question,
    what: str,
    found: Sequence[tuple[int, ...]],
    wanted: Sequence[tuple[int, ...]],
) -> None:
    assert sorted(found) == sorted(wanted), (
        f"{question.name}: {len(found):,} matches in {what}, and {len(wanted):,} by the script,"
        f" of which {len({*found} & {*wanted}):,} are the same"
    )


def end_to_end(
    question: Question, asked: Sequence[Asked], every: Sequence[Quote]
) -> tuple[float, int]:
    """CPU seconds for XML documents in batches of a hundred, and the number of matches."""
    documents = [
        Document(f"{n:09}", timestamp=float(at), xml=f"<q><s>{symbol}</s><p>{price}</p></q>")
        for n, (at, symbol, price) in enumerate(every)
    ]
    with Broker(lateness=0) as running:
        running.subscribe(";\n".join(f"w{n}: {written(question, a)}" for n, a in enumerate(asked)))
        running.process([])
        found, begun = 0, time.process_time()
        for first in range(0, len(documents), 100):
            found += len(running.process(documents[first : first + 100]))
        taken = time.process_time() - begun
        assert not running.engine.take_suspensions()
    return taken, found


def compare(
    question: Question,
    asked: Sequence[Asked],
    every: Sequence[Quote],
    flinks: flink.Answer | None,
) -> list[str]:
    """A row of the table. At batches of one only some of the quotes are given to SQL, and the
    documents are a fifth."""
    seconds, wanted = pattern_scripts.run(question.script, asked, every, _WINDOW)
    cells = [question.name, f"{len(wanted):,}"]
    for size in (1, 100, 1_000):
        taken, found = step(compiled(written(question, asked[0])), every, asked, size)
        same(question, f"batches of {size}", found, wanted)
        cells.append(rate(len(every), taken))
    some = head(every, len(every) // 5)
    taken, number = end_to_end(question, asked, some)
    assert number == len(up_to(wanted, some)), f"{question.name}: {number:,} from XML"
    cells += [rate(len(some), taken), rate(len(every), seconds)]
    for size, count in ((1, 200), (100, len(every) // 4), (1_000, len(every))):
        some = head(every, min(count, len(every)))
        if question.sql:
            taken, found = pattern_sql.run(question.name, asked, some, _WINDOW, size)
            same(question, f"SQL, {size}", found, up_to(wanted, some))
        cells.append(rate(len(some), taken) if question.sql else "")
    if flinks is None:
        return [*cells, ""]
    same(question, "Flink", flinks[1], [*map(flink.signature, wanted)])
    return [*cells, rate(len(every), flinks[0])]


def up_to(wanted: Sequence[Match], some: Sequence[Quote]) -> list[Match]:
    """The matches of a beginning of the stream."""
    last = some[-1][0]
    return [match for match in wanted if match[-1] <= last]


def compared(
    title: str, asked: dict[str, list[Asked]], every: Sequence[Quote], with_flink: bool = True
) -> list[str]:
    """All questions: a title and a table."""
    jobs = {
        question.name: flink.job(question.flink, asked[question.name], every, _WINDOW)
        for question in QUESTIONS
        if question.flink is not None
    }
    answers = flink.run(jobs) if with_flink else {}
    rows = []
    for question in QUESTIONS:
        rows.append(compare(question, asked[question.name], every, answers.get(question.name)))
        print(*rows[-1], sep=" | ", flush=True)
    header = ["question", "matches", *(f"step, {n}" for n in ("1", "100", "1,000"))]
    header += ["from XML", "Python", *(f"SQL, {n}" for n in ("1", "100", "1,000")), "Flink"]
    return [title, table(header, rows)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--setup", action="store_true", help="make the environment of Flink")
    given = options.parse_args()
    if given.setup:
        flink.setup()
        return
    quick = given.quick
    every = quotes(1_000 if quick else 8_000)
    single = {question.name: one(question) for question in QUESTIONS}
    number = 200 if quick else _MANY
    parts = compared("One query, of all symbols:", single, every)
    parts += compared(
        f"{number:,} queries with constants of their own:",
        {question.name: many(question, number) for question in QUESTIONS},
        every if quick else head(every, 2_500),
        with_flink=not quick,
    )
    real = [] if quick else head(bars(), 3_000)
    if real:
        parts += compared(f"One query over {len(real):,} bars of stocks:", single, real)
    note = (
        "Events per CPU second of one thread (Flink: of its process); `step` is from rows to matches in"
        " batches of that size, `from XML` the library with its state in memory, in batches of 100."
    )
    finish("patterns_engines", parts, quick, f"{note} {flink.said()}")


if __name__ == "__main__":
    main()
