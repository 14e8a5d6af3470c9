"""What a query finds does not depend on which others there are, nor on the order in which documents
come that are not late: patterns whose blocks are the same, but of which each wants something else."""

from __future__ import annotations

from random import Random

import pytest

from broker import Broker, Document, Match
from tests.seeds import seeds

BLOCKS = ("S/a", "S//k", "S/c/k", "S/b[./k]", "S/a[./k = 'p']")
BOUND = ("S/a[./k->{0}]", "S//k->{0}", "S/c[./k->{0}]", "S/b/k->{0}")
AROUND = (
    "{0} NEXT {1}",
    "{0} NEXT {1} NEXT {2}",
    "{0} FOLLOWED BY NOT {1} FOLLOWED BY {{9 s}} {2}",
    "{0} FOLLOWED BY {{4 s}} NOT {1}",
    "{0} FOLLOWED BY ({1})+ FOLLOWED BY {2} WITHIN 9 s",
    "{0} FOLD {{,}} {1} WITHIN 5 s",
    "{0} FOLD {{,}} {1} FOLLOWED BY {2} WITHIN 5 s",
    "({0} FOLD {{,}} {1} WITHIN 3 s) FOLLOWED BY {{4 s}} {2}",
    "({0} OR {1}) FOLLOWED BY {2} USING NON OVERLAPPING WITHIN 6 s",
    "{0} FOLLOWED BY {1} USING STRICT CONTIGUITY",
    "{0} FOLLOWED BY {1} USING SKIP TILL NEXT MATCH WITHIN 6 s",
    "{0} JOIN {{5 s}} {1}",
    "{0} FOLLOWED BY {{5 s}} ({1})+",
    "{0} FOLLOWED BY {{5 s}} ({1})+ FOLLOWED BY {{1 s AFTER}} NOT {2}",
    "{0} FOLLOWED BY ({1})* FOLLOWED BY NOT {2} WITHIN 4 s",
    "{0} FOLLOWED BY {{5 s}} ({1}){{1,2}} FOLLOWED BY {{3 s AFTER}} NOT {2}",
    "{0} FOLLOWED BY {1} PARTITION BY ./@u USING ONE PER START WITHIN 6 s",
)


ENDS = tuple(around for around in AROUND if "AFTER" in around)


def query(random: Random, name: str, arounds: tuple[str, ...] = AROUND) -> str:
    around = random.choice(arounds)
    places = [n for n in range(3) if f"{{{n}}}" in around]
    bound = {n for n in places if random.random() < 0.3 and f"NOT {{{n}}}" not in around}
    blocks = [
        random.choice(BOUND).format(f"x{n}") if n in bound else random.choice(BLOCKS)
        for n in range(3)
    ]
    select = ""
    plain = {
        n for n in bound if f"({{{n}}}" not in around and f"FOLD {{{{,}}}} {{{n}}}" not in around
    }
    if plain and random.random() < 0.7:
        select = f"SELECT {', '.join(f'x{n}' for n in sorted(plain))} FROM "
    return f"{name}: {select}{around.format(*blocks)}"


def documents(random: Random, count: int = 40) -> list[Document]:
    found = []
    for n in range(count):
        tag = random.choice("aabbcz")
        inner = "".join(f"<k>{random.choice('pq')}</k>" for _ in range(random.choice((0, 1, 1, 2))))
        xml = f"<{tag} u='{random.randrange(2)}'>{inner}</{tag}>"
        found.append(Document(f"{tag}{n}", timestamp=float(n // 2), xml=xml))
    return found


def found(queries: list[str], given: list[Document], cuts: list[int]) -> dict[str, list[Match]]:
    matches: dict[str, list[Match]] = {text.partition(":")[0]: [] for text in queries}
    with Broker(lateness=3.0) as broker:
        for text in queries:
            broker.subscribe(text)
        for begin, end in zip([0, *cuts], [*cuts, len(given)], strict=True):
            for match in broker.process(given[begin:end]):
                matches[match.query].append(match)
        for match in broker.process([Document("end", timestamp=1_000.0, xml="<end/>")]):
            matches[match.query].append(match)
    return matches


def told(matches: list[Match]) -> list[tuple[object, ...]]:
    return sorted((m.id, m.start_us, m.end_us, m.nodes, m.result) for m in matches)


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_others_change_nothing(seed: int) -> None:
    random = Random(seed)
    queries = [query(random, f"q{n}") for n in range(12)]
    given = documents(random)
    count = 0
    together = found(queries, given, sorted(random.sample(range(1, len(given)), 4)))
    for text in queries:
        name = text.partition(":")[0]
        alone = told(found([text], given, [])[name])
        assert told(together[name]) == alone, text
        count += len(alone)
    assert count


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_the_order_of_arrival_changes_nothing(seed: int) -> None:
    """And what one order decides in batches another one decides document by document."""
    random = Random(seed)
    queries = [query(random, f"q{n}", random.choice((AROUND, ENDS))) for n in range(12)]
    given = documents(random)
    expected = found(queries, given, [])
    late = {each.id: n // 2 + random.uniform(0.0, 2.9) for n, each in enumerate(given)}
    given.sort(key=lambda each: late[each.id])
    one_by_one = found(queries, given, [*range(1, len(given))])
    for text in queries:
        name = text.partition(":")[0]
        assert told(one_by_one[name]) == told(expected[name]), text
