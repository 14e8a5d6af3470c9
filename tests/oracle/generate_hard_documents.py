"""The documents of random cases in which nearly everything joins with nearly everything.

A post is `<p k=..><a>..</a><b>..</b><c>..</c><s>number</s><w><n>..</n><m>..</m></w></p>`, with
leaves and persons missing or repeated; a feed is `<f><h>..</h>` and posts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.oracle.generate import Batch
from tests.oracle.generate_documents import SECOND
from tests.oracle.oracle import Arrival

VALUES = "uvwxyz"
HOT = ((6, 3, 2, 1), (2, 2, 1, 1), (20, 2, 1, 1), (12, 4, 1), (6, 6, 1))
"""How common the values are; the more even, the longer the way from document to document."""
EVEN = ((2, 2, 1, 1), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1))


class World:
    """Documents of one case: which values are common in it, how regular its documents are."""

    def __init__(self, r: Random, weights: Sequence[tuple[int, ...]]) -> None:
        self.r = r
        self.weights = r.choice(weights)
        self.irregular = r.choice((0.0, 0.15, 0.6))
        self.disorder = r.choice((0.0, 0.2, 0.7))

    def value(self) -> str:
        return self.r.choices(VALUES[: len(self.weights)], self.weights)[0]

    def stream(self, count: int) -> list[Arrival]:
        """New documents in order of arrival. Several have one timestamp, some are far behind."""
        r = self.r
        span = max(3, count // 4)
        made = []
        for i in range(count):
            second = r.randint(0, span) if r.random() < self.disorder else i * span // count
            at = second * SECOND + (r.choice((1, SECOND // 2)) if r.random() < 0.1 else 0)
            streams = r.choice((("S",), ("S",), ("S",), ("S",), ("R",), ("S", "R")))
            made.append(Arrival(f"d{i + 1}", streams, at, self.xml(), "f"))
        return made

    def xml(self) -> str:
        r, odd = self.r, self.r.random() < self.irregular
        if not odd:
            post = self.post(repeats=False, leaves=r.random() < 0.3)
            return post if r.random() < 0.8 else self.feed([post])
        if r.random() < 0.6:
            return self.post(repeats=True, leaves=True)
        return self.feed([self.post(r.random() < 0.4) for _ in range(r.randint(2, 3))])

    def feed(self, posts: Sequence[str]) -> str:
        return f"<f><h>{self.value()}</h>{''.join(posts)}</f>"

    def post(self, repeats: bool, leaves: bool = False) -> str:
        """`repeats`: whether persons may be there several times; `leaves`: whether the others."""
        r = self.r
        once, often = (0, 1, 1, 1, 1, 1, 1, 1), (0, 1, 2, 2, 3)
        inside = [
            f"<{leaf}>{self.value()}</{leaf}>"
            for leaf in "abc"
            for _ in range(r.choice(often if leaves else once))
        ]
        inside.append(f"<s>{r.randint(1, 3)}</s>")
        inside += [self.person(repeats) for _ in range(r.choice(often if repeats else once))]
        return f'<p k="{self.value()}">{"".join(inside)}</p>'

    def person(self, repeats: bool) -> str:
        names = [self.value() for _ in range(2 if repeats and self.r.random() < 0.2 else 1)]
        mail = f"<m>{self.value()}</m>" if self.r.random() < 0.9 else ""
        return f"<w>{''.join(f'<n>{name}</n>' for name in names)}{mail}</w>"

    def echoes(self, stream: Sequence[Arrival]) -> list[Arrival]:
        """The stream with some documents revised or sent again among the others."""
        r = self.r
        rate = r.choice((0.0, 0.1, 0.3))
        out: list[Arrival] = []
        for arrival in stream:
            out.append(arrival)
            if r.random() < rate:
                old = r.choice(out[-4:])
                if r.random() < 0.3:  # another time; also one that the index has let go
                    old = replace(old, timestamp=max(0, old.timestamp + r.randint(-2, 2) * SECOND))
                xml = self.xml() if r.random() < 0.7 else old.xml
                out.append(replace(old, xml=xml, revision=r.random() < 0.7))
        return out

    def cut(self, stream: Sequence[Arrival]) -> list[Batch]:
        sizes = self.r.choice(((1,), (1, 2, 3), (2, 5, 9), (30,)))
        batches, rest = [], list(stream)
        while rest:
            size = self.r.choice(sizes)
            batches.append(Batch(tuple(rest[:size])))
            rest = rest[size:]
        return batches
