"""Random documents and streams of them: small, nested, repetitive, with few distinct values.

Everything draws from a `random.Random`, which hypothesis can stand in for (`st.randoms`), so that
what fails shrinks. Timestamps come from a few seconds, so that ties and window edges occur.
"""

from __future__ import annotations

from random import Random
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from tests.oracle.oracle import Arrival

Level = Literal["core", "full"]

TAGS = ("a", "b", "c", "d", "e-f")
ATTRIBUTES = ("i", "j")
URI = "urn:n"
STREAMS = ("S", "R", "T.2")
SECOND = 1_000_000
TEXTS: dict[Level, tuple[str, ...]] = {
    "core": ("x", "y", "1", "1.0", " 1 ", ""),
    "full": (
        "x", "y", "1", "1.0", " 1 ", "", "X", "2", "-1.5", "x y", "X,  y!", "Straße É",
        "https://Ex.org/a/?utm_source=q&k=1#f", "https://ex.org/a?k=1",
        "2024-01-02T03:04:05Z", "Tue, 02 Jan 2024 03:04:05 GMT", "2024-01-02",
    ),
}  # fmt: skip


def text(r: Random, level: Level) -> str:
    """A value: two thirds of the time one of the three commonest, so that joins find partners."""
    values = TEXTS[level]
    return r.choice(values[:3]) if r.randint(0, 2) else r.choice(values)


def xml(r: Random, level: Level) -> str:
    """A document of up to about a dozen elements."""
    budget = [r.randint(0, 5) + r.randint(1, 6)]
    return _element(r, level, budget, depth=0, scope=frozenset())


def _element(r: Random, level: Level, budget: list[int], depth: int, scope: frozenset[str]) -> str:
    tag = r.choice(TAGS[:3]) if r.randint(0, 3) else r.choice(TAGS)
    head = ""
    namespaced = r.randint(0, 9)
    if namespaced == 0:
        head += f' xmlns="{URI}"'
    elif namespaced == 1:
        tag, head = f"p:{tag}", f' xmlns:p="{URI}"'
        scope = scope | {"p"}
    for name in ATTRIBUTES:
        if r.randint(0, 3) == 0:
            prefix = "p:" if "p" in scope and r.randint(0, 3) == 0 else ""
            head += f" {prefix}{name}={quoteattr(text(r, level))}"
    content = []
    children = r.randint(0, 3) if depth < 4 else 0
    for _ in range(children):
        if budget[0] > 0:
            budget[0] -= 1
            content.append(_element(r, level, budget, depth + 1, scope))
        if r.randint(0, 7) == 0:
            content.append(_aside(r, level))
    if not children or r.randint(0, 5) == 0:
        content.insert(r.randint(0, len(content)), escape(text(r, level)))
    return f"<{tag}{head}>{''.join(content)}</{tag}>"


def _aside(r: Random, level: Level) -> str:
    """What numbering and string values must see through, or past."""
    kind = r.randint(0, 3)
    if kind == 0:
        return "<!-- x -->"
    if kind == 1:
        return "<?pi x?>"
    return f"<![CDATA[{text(r, level)}]]>" if kind == 2 else escape(text(r, level))


def alike(r: Random, content: str | bytes) -> str:
    """The same shape with a few other values, as two items of one feed are alike."""
    assert isinstance(content, str)
    for _ in range(r.randint(0, 2)):
        one, other = r.choice(TEXTS["core"][:4]), r.choice(TEXTS["core"][:4])
        content = content.replace(f">{one}<", f">{other}<", r.randint(1, 3))
    return content


def timestamp(r: Random) -> int:
    """Microseconds: mostly whole seconds of a small range; sometimes just beside one."""
    at = r.randint(0, 6) * SECOND
    nudge = r.randint(0, 9)
    return at + {0: SECOND // 2, 1: 1}.get(nudge, 0)


def documents(r: Random, level: Level, count: int, sequenced: bool = False) -> list[Arrival]:
    """New documents of different ids, in order of arrival."""
    made: list[Arrival] = []
    names = STREAMS[: r.choice((1, 1, 2, 3))]
    next_seq: dict[str, int] = {}
    for i in range(count):
        streams = [r.choice(names)]
        if r.randint(0, 5) == 0:
            streams += [r.choice(names)]
        source = r.choice((None, "f1")) or streams[0]
        next_seq[source] = next_seq.get(source, 0) + 1
        seq = next_seq[source] if sequenced else None
        distinct = tuple(dict.fromkeys(streams))
        content = alike(r, r.choice(made).xml) if made and r.randint(0, 2) else xml(r, level)
        made.append(Arrival(f"d{i + 1}", distinct, timestamp(r), content, source, seq))
    return made


def echoes(r: Random, level: Level, arrivals: list[Arrival]) -> list[Arrival]:
    """The same stream with some documents repeated, revised, broken or late among the others.

    Without sequence numbers: a stream that has them drops what repeats one.
    """
    out: list[Arrival] = []
    for arrival in arrivals:
        out.append(arrival)
        fate = r.randint(0, 11)
        if fate > 4:
            continue
        earlier = r.choice(out)
        if fate <= 2:  # a revision: new content, sometimes a new time
            earlier = out[0] if r.randint(0, 1) else earlier  # it may be behind the watermark
            again = timestamp(r) if r.randint(0, 3) == 0 else earlier.timestamp
            revision = True
        else:  # the same id again, with other content or not
            again = timestamp(r)
            revision = False
        content = xml(r, level) if r.randint(0, 3) else earlier.xml
        if fate == 4 and r.randint(0, 1):
            content = "<a><b></a>"
            key = f"broken{len(out)}"
        else:
            key = earlier.id
        out.append(Arrival(key, earlier.streams, again, content, earlier.source, None, revision))
    return out
