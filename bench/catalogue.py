"""What do the statistics of streams cost: a document when it comes, and who asks when they ask?

    python -m bench.catalogue [--quick]

A document pays for its outline alone: its tags and numbers of children are hashed and compared,
which finds its stops in stage 1 as well. Beside it is what the alternative would cost, to read its
values at arrival into sketches that are merged later, and that for every sixteenth document only.
`asked` is what a question costs that is answered from the stored documents instead, from a sample
by the hash of their identity, in a state of many. All in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.measure import finish, parser, table
from bench.stage1 import selecting
from broker import Broker, Document
from broker.statistics.values import SampleValues
from broker.suggest import suggest
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.structures import Structures

SAMPLED = 16
"""Of so many documents the alternative would read one."""


def item(number: int) -> bytes:
    """A feed item of 2 KB."""
    names = {
        "channel_url": "https://example.org/feed",
        "channel_title": f"Feed {number % 20}",
        "item_url": f"https://example.org/{number // 2}",
        "guid": str(number),
        "title": f"Title {number // 2}",
        "author": f"Author {number % 300}",
        "category": f"subject {number % 50}",
        "timestamp": "2026-10-05T08:00:00Z",
        "description": "words and more words " * 75,
    }
    inner = "".join(f"<{name}>{text}</{name}>" for name, text in names.items())
    return f"<item>{inner}</item>".encode()


def feed(entries: int) -> bytes:
    """A whole feed as one document."""
    entry = "<item><title>t</title><link>l</link><guid>g</guid><author>a</author></item>"
    return f"<rss><channel>{entry * entries}</channel></rss>".encode()


def cpu(run: Callable[[], object], times: int) -> float:
    """Microseconds of CPU for one call, the best of five."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(times):
            run()
        found.append((time.process_time() - begin) / times * 1e6)
    return min(found)


def of_document(name: str, xml: bytes, times: int) -> list[str]:
    """A row: a document, and what it pays."""
    root = parse_document(xml)
    tags, children = [each.tag for each in root.iter()], [len(each) for each in root.iter()]
    matcher = Matcher(selecting())
    structures = Structures(matcher.automaton)
    outline = cpu(lambda: structures.find(tags, children, None), times)
    reading = cpu(lambda: SampleValues().add(1, root), times)
    elements = sum(1 for _ in root.iter())
    stage1 = cpu(lambda: matcher.match(parse_document(xml), ("S",)), times)
    return [
        *(name, str(elements), f"{stage1:.1f}", f"{outline:.2f}", f"{outline / stage1:.1%}"),
        *(f"{outline / elements * 1000:.0f}", f"{reading:.1f}", f"{reading / SAMPLED:.2f}"),
    ]


def asked(documents: int) -> list[list[str]]:
    """Rows: a question, and what it costs in a state of so many items, in milliseconds."""
    with Broker(lateness=1e9) as broker:
        for begin in range(0, documents, 5_000):
            broker.process(
                Document(str(n), ("S", f"f{n % 20}"), n * 60.0, item(n), f"f{n % 20}")
                for n in range(begin, min(documents, begin + 5_000))
            )
        streams = broker.engine.streams
        questions: dict[str, Callable[[], object]] = {
            "which streams there are": streams.streams,
            "the exact counts of label paths": lambda: streams.paths("S"),
            "all of a stream, 1,000 documents sampled": lambda: streams.stream("S"),
            "the same for a price, 200 sampled": lambda: streams.stream("S", values=20, sample=200),
            "five joins, 2,000 sampled, tried": lambda: suggest(streams, ["S"], 5),
        }
        return [[name, f"{cpu(run, 1) / 1000:,.0f}"] for name, run in questions.items()]


HEAD = (
    *("document", "elements", "stage 1, µs", "outline, µs", "of stage 1", "ns an element"),
    *("values, µs", f"of one in {SAMPLED}, µs"),
)


def main() -> None:
    args = parser(__doc__).parse_args()
    times = 300 if args.quick else 5_000
    rows = [
        of_document("feed item, 2 KB", item(7), times),
        of_document("feed of 10 items", feed(10), times),
        of_document("feed of 50 items", feed(50), max(100, times // 10)),
    ]
    documents = 2_000 if args.quick else 100_000
    parts = [
        table(HEAD, rows),
        f"### Asked, of {documents:,} stored items",
        table(("question", "CPU, ms"), asked(documents)),
    ]
    finish("catalogue", parts, args.quick)


if __name__ == "__main__":
    main()
