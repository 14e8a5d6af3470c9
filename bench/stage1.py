"""What does stage 1 cost, against parsing the document, with 10 to 1,000,000 patterns registered?

    python -m bench.stage1 [--most 1000000] [--quick]

The parse floor is `lxml.etree.fromstring` on the same bytes, measured in turns with stage 1:
parsing, matching, and the Arrow columns of a batch. Patterns are of three sorts: `paths` are tree
patterns that all differ (a tenth of them with `//` inside), `constants` compare one subject with a
constant each, `keywords` search one for a word each. A few more select the same nodes however many
the others are, which select nothing; so the witnesses stay the same, and what grows is what the
others cost. `change` is a pattern that comes, a document, the pattern that goes, a document, less
the documents. Hostile documents meet the paths.
"""

from __future__ import annotations

import ctypes
import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence

from lxml import etree

from bench.measure import parser, resident
from broker.documents.arrow import rows_from_witnesses
from xscl.normal import ir
from xscl.normal.treepattern import Definition
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What `mallopt` calls these settings."""

SYLLABLES = ("ba", "ko", "ri", "tan", "mel", "sor", "vi", "dun", "pa", "lek", "un", "esh")


def word(number: int) -> str:
    """A word that no document holds."""
    letters = []
    for _ in range(6):
        number, digit = divmod(number, len(SYLLABLES))
        letters.append(SYLLABLES[digit])
    return "q" + "".join(letters)


# -- patterns --------------------------------------------------------------------------------


def step(name: str, axis: str = "/", *filters: ir.Expr) -> ir.Step:
    return ir.Step(axis, ir.Test("element", name), filters)  # type: ignore[arg-type]


def edge(number: int, depth: int, valued: bool, *steps: ir.Step) -> Edge:
    return Edge(number, 0 if depth == 0 else 1, number, Definition("S", steps), depth, valued)


def selecting() -> list[Edge]:
    """A root and the fields that join, for feed items and for rows of a table."""
    fields = [("item", "title"), ("item", "author"), ("item", "link"), ("row", "part")]
    edges = [edge(1, 0, False, step("item", "//")), edge(2, 0, False, step("row", "//"))]
    for number, (root, field) in enumerate(fields, 3):
        edges.append(edge(number, 1, True, step(root, "//"), step(field)))
    return edges


def path(number: int) -> Edge:
    names = [word(number * 3 + i) for i in range(3)]
    if number % 10 == 0:
        return edge(100 + number, 0, True, step("item", "//"), step(names[0], "//"))
    return edge(100 + number, 0, True, step("rss"), step("channel"), *map(step, names))


def filtered(number: int, condition: ir.Expr) -> Edge:
    return edge(100 + number, 1, True, step("item", "//", condition), step("link"))


def constant(number: int) -> Edge:
    subject = ir.Path((step("author"),))
    return filtered(
        number,
        ir.Comparison(ir.Comparator.EQUAL, subject, ir.String(f"Stranger {number}")),
    )


def keyword(number: int) -> Edge:
    subject = ir.Path((step("title"),))
    return filtered(number, ir.Call("contains", (subject, ir.String(word(number)))))


SORTS: dict[str, Callable[[int], Edge]] = {
    "paths": path,
    "constants": constant,
    "keywords": keyword,
}


# -- documents -------------------------------------------------------------------------------


def text(rng: random.Random, words: int) -> str:
    return " ".join(f"text{rng.randrange(5000)}" for _ in range(words))


def item(rng: random.Random, words: int) -> str:
    number = rng.randrange(100_000)
    return (
        f"<item><title>{text(rng, 8)}</title><link>https://example.org/{number}</link>"
        f'<guid isPermaLink="false">tag:{number}</guid><author>Author {number % 400}</author>'
        "<pubDate>Mon, 05 Oct 2026 08:00:00 GMT</pubDate><category>one</category>"
        f"<category>two</category><description>{text(rng, words)}</description>"
        f'<enclosure url="https://example.org/{number}.mp3" length="{number}" type="audio/mpeg"/>'
        f"<comments>https://example.org/{number}#comments</comments></item>"
    )


def documents() -> dict[str, bytes]:
    rng = random.Random(1)
    rows = "".join(
        f'<row id="{n}"><part>p{n}</part><quantity>{n % 50}</quantity><price>{n * 7 % 1000}</price>'
        f"<date>2026-10-{n % 28 + 1:02}</date><mode>air</mode></row>"
        for n in range(870)
    )
    feed = "".join(item(rng, 50) for _ in range(21))
    return {
        "2 KB item": item(rng, 160).encode(),
        "20 KB feed": f"<rss><channel><title>F</title>{feed}</channel></rss>".encode(),
        "100 KB table": f"<table>{rows}</table>".encode(),
    }


def hostile() -> dict[str, bytes]:
    """Named by what is odd about them."""
    names = [word(n) for n in range(30_000)]
    deep = "".join(f"<{n}>" for n in names[:250]) + "".join(f"</{n}>" for n in names[249::-1])
    mixed = random.Random(2).choices(("item", "rss", "channel", "link"), k=250)
    closed = "".join(f"</{n}>" for n in reversed(mixed))
    attributes = " ".join(f'a{n}="{n}"' for n in range(5_000))
    return {
        "250 deep, one tag": b"<item>" * 250 + b"</item>" * 250,
        "250 deep, four tags": ("".join(f"<{n}>" for n in mixed) + closed).encode(),
        "250 deep, known tags": deep.encode(),
        "10,000 unknown tags": (
            "<item>" + "".join(f"<u{n}/>" for n in range(10_000)) + "</item>"
        ).encode(),
        "10,000 known tags": (
            "<item>" + "".join(f"<{n}/>" for n in names[:10_000]) + "</item>"
        ).encode(),
        "5,000 attributes": f"<item {attributes}/>".encode(),
        "1,000,000 siblings": b"<rss>" + b"<channel/>" * 1_000_000 + b"</rss>",
    }


# -- measuring -------------------------------------------------------------------------------


def fastest(work: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The least CPU seconds of each, in turns, so that they share whatever slows the machine."""
    least = [float("inf")] * len(work)
    end = time.process_time() + seconds
    rounds = 0
    while rounds < 3 or time.process_time() < end:
        rounds += 1
        for i, run in enumerate(work):
            begin = time.process_time()
            run()
            least[i] = min(least[i], time.process_time() - begin)
    return least


def cost(matcher: Matcher, xml: bytes, seconds: float) -> tuple[float, float]:
    """CPU seconds of a document: parsing alone, and stage 1 with all that it does."""
    batch = max(1, 200_000 // len(xml))

    def parse() -> None:
        for _ in range(batch):
            etree.fromstring(xml)

    def stage1() -> None:
        witnesses = [matcher.match(parse_document(xml), ("S",)) for _ in range(batch)]
        rows_from_witnesses(witnesses)

    floor, whole = fastest([parse, stage1], seconds)
    return floor / batch, whole / batch


def change(matcher: Matcher, made: Edge, xml: bytes) -> float:
    """CPU seconds by which a pattern that comes and goes, a document after each, exceeds those."""
    root = parse_document(xml)

    def changing() -> None:
        matcher.add(made)
        matcher.match(root, ("S",))
        matcher.remove(made.id)
        matcher.match(root, ("S",))

    def alone() -> None:
        matcher.match(root, ("S",))
        matcher.match(root, ("S",))

    changed, same = fastest([changing, alone], 0.2)
    return changed - same


def grown(sort: str, most: int) -> Iterator[tuple[int, Matcher, float, float]]:
    """One matcher with ever more patterns: their number, CPU us and bytes for each of the last."""
    matcher = Matcher(selecting())
    there, count = 0, 10
    while count <= most:
        begin, before = time.process_time(), resident()
        for number in range(there, count):
            matcher.add(SORTS[sort](number))
        seconds = time.process_time() - begin
        for xml in documents().values():
            matcher.match(parse_document(xml), ("S",))
        gc.collect()
        gc.freeze()
        added = count - there
        yield count, matcher, seconds / added * 1e6, (resident() - before) / added
        there, count = count, count * 10


def keep_memory() -> None:
    """Have glibc keep what is freed. Otherwise it depends on what else was freed before whether
    each document of 100 KB takes its memory anew from the system, which is a fifth of its parse."""
    glibc = ctypes.CDLL(None)
    for setting in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        glibc.mallopt(setting, 1 << 30)


def main() -> None:
    keep_memory()
    options = parser(__doc__)
    options.add_argument("--most", type=int, default=1_000_000)
    args = options.parse_args()
    most, seconds = (1_000, 0.05) if args.quick else (args.most, 1.5)
    table_of_hostile(min(most, 100_000), seconds / 2)
    names = [f"{name} ({len(xml):,} bytes)" for name, xml in documents().items()]
    print("Stage 1 / parse floor, for " + ", ".join(names) + "; CPU time\n")
    print(f"{'patterns':>20}{'add, us':>9}{'bytes':>7}{'change, ms':>12}", end="")
    print("".join(f"{name:>14}" for name in documents()), flush=True)
    for sort in SORTS:
        for count, matcher, each, size in grown(sort, most):
            changed = max(
                change(matcher, SORTS[sort](most + i), documents()["2 KB item"]) for i in range(3)
            )
            shown = f"{size:7,.0f}" if count >= 10_000 else f"{'':7}"
            print(
                f"{count:10,} {sort:9}{each:9.1f}{shown}{changed * 1e3:12.2f}", end="", flush=True
            )
            for xml in documents().values():
                floor, whole = cost(matcher, xml, seconds)
                print(f"{whole / floor:14.2f}", end="", flush=True)
            print(flush=True)


def table_of_hostile(count: int, seconds: float) -> None:
    """`first`: no move of the automaton is known, as after a restart; `then`: all are."""
    matcher = Matcher([*selecting(), *map(path, range(count))])
    gc.collect()
    gc.freeze()
    print(f"Stage 1 / parse floor with {count:,} paths, for hostile documents; CPU time\n")
    print(f"{'document':24}{'floor, ms':>11}{'first':>8}{'then':>8}{'MB more':>9}")
    for name, xml in hostile().items():

        def first(xml: bytes = xml) -> None:
            matcher.automaton.forget()
            matcher.match(parse_document(xml), ("S",))

        before = resident()
        (cold,) = fastest([first], seconds)
        floor, whole = cost(matcher, xml, seconds)
        more = (resident() - before) / 2**20
        print(f"{name:24}{floor * 1e3:11.2f}{cold / floor:8.1f}{whole / floor:8.1f}{more:9.0f}")
    print(flush=True)


if __name__ == "__main__":
    main()
