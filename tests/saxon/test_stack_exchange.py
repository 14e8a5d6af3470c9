"""A whole question-and-answer site, one stream per table: the engine, Saxon and SQL agree.

Each row of the dump is a document; the tables refer to each other by ids. The SQL is written by
hand over the same rows. Of every question all matches are compared, not only their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from lxml import etree

import xscl
from broker import Broker, Match
from tests.oracle.oracle import Arrival
from tests.saxon.engine import EPOCH, Rows, document
from tests.saxon.witness import Saxon

DUMP = Path(__file__).parents[3] / "shared" / "data" / "se_dump_ssdug" / "data"
TABLES = ("Posts", "Comments", "Votes", "Badges", "PostHistory", "PostLinks", "Users", "Tags")
BATCH = 500

pytestmark = pytest.mark.skipif(not DUMP.is_dir(), reason=f"{DUMP} is missing")


@dataclass(frozen=True, slots=True)
class Question:
    """`sql` gives the ids of a match's documents, in pattern order, over tables whose columns are
    the attributes (text), `doc` (the document's id) and `at` (its time in microseconds).
    """

    name: str
    text: str
    sql: str


DAY, HOUR = 86_400_000_000, 3_600_000_000
QUESTIONS = (
    Question(
        "comments",
        """Posts//row->p[./@Id->i] JOIN {i = j} Comments//row->c[./@PostId->j]""",
        """SELECT p.doc, c.doc FROM Posts p, Comments c WHERE p.Id = c.PostId""",
    ),
    Question(
        "votes",
        """SELECT v FROM Posts//row[./@Id->i] JOIN {i = j} Votes//row->v[./@PostId->j]""",
        """SELECT p.doc, v.doc FROM Posts p, Votes v WHERE p.Id = v.PostId""",
    ),
    Question(
        "history",
        """Posts//row->p JOIN {p/@Id = h/@PostId} PostHistory//row->h WHERE h/@Comment != ''""",
        """SELECT p.doc, h.doc FROM Posts p, PostHistory h WHERE p.Id = h.PostId AND h.Comment <> ''""",
    ),
    Question(
        "badges",
        """SELECT u AS id, n FROM Users//row[./@Id->u]
           JOIN {u = v} Badges//row[./@UserId->v][./@Class != 3][./@Name->n]""",
        """SELECT u.doc, b.doc FROM Users u, Badges b
           WHERE u.Id = b.UserId AND b.Class::DOUBLE <> 3""",
    ),
    Question(
        "links",
        """Posts//row[./@Id->a] JOIN {a = f} PostLinks//row[./@PostId->f][./@RelatedPostId->g]
           JOIN {g = b} Posts//row[./@Id->b]""",
        """SELECT a.doc, l.doc, b.doc FROM Posts a, PostLinks l, Posts b
           WHERE a.Id = l.PostId AND b.Id = l.RelatedPostId AND a.doc <> b.doc""",
    ),
    Question(
        "answers_within_a_day",
        """Posts//row->q[./@PostTypeId = 1][./@Id->i]
           FOLLOWED BY {i = p, 1 day} Posts//row->a[./@ParentId->p]""",
        f"""SELECT q.doc, a.doc FROM Posts q, Posts a WHERE q.PostTypeId = '1' AND q.Id = a.ParentId
            AND q.at < a.at AND a.at - q.at <= {DAY}""",
    ),
    Question(
        "better_answers",
        """Posts//row->q[./@Id->i][./@Score->s] FOLLOWED BY {i = p} Posts//row->a[./@ParentId->p]
           WHERE a/@Score > s + 2 OR NOT (s > 0)""",
        """SELECT q.doc, a.doc FROM Posts q, Posts a WHERE q.Id = a.ParentId AND q.at < a.at
           AND (a.Score::DOUBLE > q.Score::DOUBLE + 2 OR NOT q.Score::DOUBLE > 0)""",
    ),
    Question(
        "comment_then_vote",
        """Posts//row[./@Id->i] JOIN {i = j} Comments//row[./@PostId->j]
           FOLLOWED BY {i = k, 3 days} Votes//row[./@PostId->k]""",
        f"""SELECT p.doc, c.doc, v.doc FROM Posts p, Comments c, Votes v
            WHERE p.Id = c.PostId AND p.Id = v.PostId AND greatest(p.at, c.at) < v.at
            AND v.at - least(p.at, c.at) <= {3 * DAY}""",
    ),
    Question(
        "votes_about_the_time_of_a_comment",
        """Comments//row[./@PostId->j] JOIN {j = k, 12 hours} Votes//row[./@PostId->k]""",
        f"""SELECT c.doc, v.doc FROM Comments c, Votes v
            WHERE c.PostId = v.PostId AND abs(c.at - v.at) <= {12 * HOUR}""",
    ),
    Question(
        "own_comments",
        """Posts//row->p[./@Id->i][./@OwnerUserId->o]
           FOLLOWED BY {i = j AND o = u} Comments//row->c[./@PostId->j][./@UserId->u] WITHIN 1 hour""",
        f"""SELECT p.doc, c.doc FROM Posts p, Comments c WHERE p.Id = c.PostId
            AND p.OwnerUserId = c.UserId AND p.at < c.at AND c.at - p.at <= {HOUR}""",
    ),
    Question(
        "comments_of_others",  # some posts have no owner, some comments no user
        """Posts//row->p JOIN {p/@Id = c/@PostId AND NOT (p/@OwnerUserId = c/@UserId)}
           Comments//row->c""",
        """SELECT p.doc, c.doc FROM Posts p, Comments c
           WHERE p.Id = c.PostId AND (p.OwnerUserId = c.UserId) IS NOT TRUE""",
    ),
    Question(
        "edits_by_others",
        """SELECT p, h FROM Posts//row->p[./@Id->i]
           FOLLOWED BY {i = j} PostHistory//row->h[./@PostId->j][./@PostHistoryTypeId > 3]
           WHERE p/@OwnerUserId != h/@UserId""",
        """SELECT p.doc, h.doc FROM Posts p, PostHistory h WHERE p.Id = h.PostId AND p.at < h.at
           AND h.PostHistoryTypeId::DOUBLE > 3 AND p.OwnerUserId <> h.UserId""",
    ),
    Question(
        "commented_authors",
        """Users//row->u[./@Id->i][./@Reputation > 200] JOIN {i = o}
           (Posts//row->p[./@OwnerUserId->o][./@Id->k] JOIN {k = j} Comments//row[./@PostId->j][./@Score->s])
           WHERE s >= 2 AND p/@Score * 2 > u/@UpVotes div 10""",
        """SELECT u.doc, p.doc, c.doc FROM Users u, Posts p, Comments c
           WHERE u.Id = p.OwnerUserId AND p.Id = c.PostId AND u.Reputation::DOUBLE > 200
           AND c.Score::DOUBLE >= 2 AND p.Score::DOUBLE * 2 > u.UpVotes::DOUBLE / 10""",
    ),
    Question(
        "the_same_badge_again",
        """Badges//row[./@UserId->u][./@Name->n]
           FOLLOWED BY {u = v AND n = m, 365 days} Badges//row[./@UserId->v][./@Name->m]""",
        f"""SELECT a.doc, b.doc FROM Badges a, Badges b WHERE a.UserId = b.UserId
            AND a.Name = b.Name AND a.at < b.at AND b.at - a.at <= {365 * DAY}""",
    ),
    Question(
        "names_alike",
        """Users//row[./@DisplayName->n]
           JOIN {substring(lower-case(n), 1, 5) = substring(lower-case(m), 1, 5)}
           Users//row[./@DisplayName->m]""",
        """SELECT a.doc, b.doc FROM Users a, Users b WHERE a.doc <> b.doc
           AND substring(lower(a.DisplayName), 1, 5) = substring(lower(b.DisplayName), 1, 5)""",
    ),
    Question(
        "tags",
        """Tags//row[./@TagName->t] JOIN {contains(g, concat('<', t, '>'))}
           Posts//row[./@Tags->g]""",
        """SELECT t.doc, p.doc FROM Tags t, Posts p
           WHERE contains(p.Tags, '<' || t.TagName || '>')""",
    ),
    Question(
        "after_the_last_activity",
        """Posts//row->p[./@Id->i] JOIN {i = j AND date(p/@LastActivityDate) < date(c/@CreationDate)}
           Comments//row->c[./@PostId->j]""",
        """SELECT p.doc, c.doc FROM Posts p, Comments c WHERE p.Id = c.PostId
           AND p.LastActivityDate::TIMESTAMP < c.CreationDate::TIMESTAMP""",
    ),
    Question(
        "edits_of_one_post",
        """PostHistory//row->a[./@PostId->i]
           FOLLOWED BY {i = j AND a/@UserId != b/@UserId, 14 days} PostHistory//row->b[./@PostId->j]""",
        f"""SELECT a.doc, b.doc FROM PostHistory a, PostHistory b WHERE a.PostId = b.PostId
            AND a.UserId <> b.UserId AND a.at < b.at AND b.at - a.at <= {14 * DAY}""",
    ),
    Question(
        "votes_after_edits",
        """PostHistory//row[./@PostId->i] FOLLOWED BY {i = j} Votes//row[./@PostId->j]""",
        """SELECT h.doc, v.doc FROM PostHistory h, Votes v WHERE h.PostId = v.PostId AND h.at < v.at""",
    ),
    Question(
        "four_tables",
        """SELECT b, c, v FROM Users//row[./@Id->i] JOIN {i = w} Badges//row->b[./@UserId->w][./@Class = 2]
           JOIN {i = u} Comments//row->c[./@UserId->u][./@PostId->k]
           JOIN {k = x} Votes//row->v[./@PostId->x][./@VoteTypeId != 2]""",
        """SELECT u.doc, b.doc, c.doc, v.doc FROM Users u, Badges b, Comments c, Votes v
           WHERE u.Id = b.UserId AND b.Class = '2' AND u.Id = c.UserId AND c.PostId = v.PostId
           AND v.VoteTypeId <> '2'""",
    ),
)
TEXT = ";\n".join(f"{question.name}: {question.text}" for question in QUESTIONS)


@dataclass(frozen=True, slots=True)
class Site:
    """The rows as documents in random order, and what the engine found in them."""

    arrivals: list[Arrival]
    saxon: Saxon
    broker: Broker
    matches: list[Match]
    tables: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    rows = {table: list(etree.parse(DUMP / f"{table}.xml").getroot()) for table in TABLES}
    arrivals = [_arrival(table, row) for table, of in rows.items() for row in of]
    Random(1).shuffle(arrivals)
    with Broker(lateness=timedelta(days=36_500)) as broker, duckdb.connect() as tables:
        for table, of in rows.items():
            _create(tables, table, of)
        broker.subscribe(TEXT)
        matches: list[Match] = []
        for start in range(0, len(arrivals), BATCH):
            matches += broker.process([document(a) for a in arrivals[start : start + BATCH]])
        assert not broker.dead_letters()
        yield Site(arrivals, Saxon(arrivals), broker, matches, tables)


def _arrival(table: str, row: etree._Element) -> Arrival:
    at = row.get("CreationDate") or row.get("Date")
    when = EPOCH if at is None else datetime.fromisoformat(at).replace(tzinfo=UTC)
    xml = etree.tostring(row, encoding="unicode", with_tail=False)
    microseconds = (when - EPOCH) // timedelta(microseconds=1)
    return Arrival(f"{table} {row.get('Id')}", (table,), microseconds, xml)


def _create(tables: duckdb.DuckDBPyConnection, name: str, rows: list[etree._Element]) -> None:
    columns = sorted({str(column) for row in rows for column in row.attrib})
    plain = pa.table({c: pa.array([row.get(c) for row in rows], pa.string()) for c in columns})
    tables.register("plain", plain)
    dates = [f"epoch_us({c}::TIMESTAMP)" for c in ("CreationDate", "Date") if c in columns]
    at = f"coalesce({', '.join([*dates, '0'])})"
    tables.execute(
        f"CREATE TABLE {name} AS SELECT '{name} ' || Id AS doc, {at} AS at, * FROM plain"
    )
    tables.unregister("plain")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_engine_equals_saxon_and_sql(site: Site, question: Question) -> None:
    by_sql = sorted(site.tables.execute(question.sql).fetchall())
    assert by_sql, "the question has answers"
    answer = site.saxon.ask(xscl.check([xscl.parse(f"{question.name}: {question.text}")]).queries)
    assert not answer.left_out
    by_saxon = answer.rows
    rows = Rows(site.broker, site.arrivals, answer.homes)
    by_engine = sorted(rows.row(m) for m in site.matches if m.query == question.name)
    assert len(by_engine) == len(by_saxon) == len(by_sql)
    assert by_engine == by_saxon
    assert sorted(row.documents for row in by_engine) == by_sql
