"""What does a document cost when very many subscriptions have a constant and a join?

    python -m bench.constants [--most 100000]

Each subscription is "an item by author X whose title holds keyword Y, followed within a day by an
item with the same link". The number of subscriptions grows; the documents are the same, and the
same few subscriptions match them, so what grows is only what the others cost. Beside it the plain
way: each subscription's filter tried on each document (measured up to 1,000, it is linear).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import xscl
from bench.frozen import frozen
from bench.measure import finish, parser
from broker import Broker, Document
from broker.query.prepared import compile_query
from xscl.stage1.document import parse_document
from xscl.stage1.filters import compile_filter

DOCUMENTS = 2_000
BATCH = 500


def subscription(number: int) -> str:
    """The first ten are of people who write in the sample; the others are of nobody in it."""
    author = f"Author {number}" if number < 10 else f"Stranger {number}"
    word = f"word{number % 50}" if number < 10 else f"theme{number}"
    return (
        f"s{number}: S//item->a[./author = '{author}'][contains(./title, '{word}')][./link->l]"
        " FOLLOWED BY {l = m, 1 day} S//item->b[./link->m];\n"
    )


def documents() -> list[Document]:
    rng = random.Random(1)
    made = []
    for n in range(DOCUMENTS):
        author = f"Author {rng.randrange(400)}"
        title = " ".join(f"word{rng.randrange(500)}" for _ in range(8))
        body = " ".join(f"text{rng.randrange(5000)}" for _ in range(60))
        xml = (
            f"<item><title>{title}</title><author>{author}</author>"
            f"<link>https://example.org/{rng.randrange(DOCUMENTS)}</link><description>{body}"
            "</description></item>"
        )
        made.append(Document(str(n), "S", float(n * 30), xml))
    return made


def plain(count: int, sample: list[Document]) -> float:
    """Microseconds of CPU a document for trying every filter."""
    program = xscl.check([xscl.parse("".join(map(subscription, range(count))))])
    tests = []
    for query in program.queries:
        compiled = compile_query(query)
        item = compiled.shape.definitions(compiled.literals)[0]
        tests.append([compile_filter(f) for f in item.steps[-1].filters])
    roots = [parse_document(d.xml.encode()) for d in sample]  # type: ignore[union-attr]
    begin = time.process_time()
    for root in roots:
        for filters in tests:
            all(test(root) for test in filters)
    return (time.process_time() - begin) / len(sample) * 1e6


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU microseconds to register each, of stage 1 and of all by document; matches found."""

    register: float
    stage1: float
    whole: float
    matches: int


def cost(count: int, sample: list[Document]) -> Cost:
    with Broker() as broker:
        begin = time.process_time()
        for start in range(0, count, 10_000):
            text = "".join(subscription(n) for n in range(start, min(count, start + 10_000)))
            broker.subscribe(text)
        broker.engine.joiner.refresh()
        registered = time.process_time() - begin
        with frozen():
            matcher = broker.engine.matcher
            roots = [parse_document(d.xml.encode()) for d in sample]  # type: ignore[union-attr]
            matcher.match(roots[0], ("S",))
            begin = time.process_time()
            for root in roots:
                matcher.match(root, ("S",))
            matched = time.process_time()
            found = 0
            for start in range(0, len(sample), BATCH):
                found += len(broker.process(sample[start : start + BATCH]))
            stage1, whole = matched - begin, time.process_time() - matched
    each = 1e6 / len(sample)
    return Cost(registered / count * 1e6, stage1 * each, whole * each, found)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--most", type=int, default=100_000)
    args = options.parse_args()
    most = 1_000 if args.quick else args.most
    sample = documents()
    lines = [
        f"{'subscriptions':>13}{'register, us each':>19}{'stage 1, us/doc':>17}"
        f"{'all, us/doc':>13}{'vs one':>8}{'plain filters, us/doc':>23}{'matches':>9}"
    ]
    print(lines[0])
    cost(1, sample)  # once for nothing: the first pays for what all share
    base, count = 0.0, 1
    while count <= most:
        found = cost(count, sample)
        base = base or found.whole
        other = f"{plain(count, sample[:50]):23,.0f}" if count <= 1_000 else f"{'':23}"
        lines.append(
            f"{count:13,}{found.register:19,.0f}{found.stage1:17.1f}{found.whole:13.1f}"
            f"{found.whole / base:8.2f}{other}{found.matches:9,}"
        )
        print(lines[-1], flush=True)
        count *= 10
    note = f"{DOCUMENTS:,} documents of {len(sample[0].xml)} bytes, batches of {BATCH}; CPU time."
    finish("constants", ["```text\n" + "\n".join(lines) + "\n```"], args.quick, note)


if __name__ == "__main__":
    main()
