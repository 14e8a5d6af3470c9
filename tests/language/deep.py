"""The long fuzz run of the front end, a command of its own.

    python -m tests.language.deep --cases 100000 --seed 1

Random text, and valid queries with tokens dropped, doubled and swapped: nothing but `XsclError` may
come out, and what is accepted prints to text that parses to the same tree.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from pathlib import Path

from xscl import XsclError, check, format_file, parse

ROOT = Path(__file__).parents[2]
TOKENS = re.compile(r"\s+|[A-Za-z_][\w.-]*'*|\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"|->|//|.", re.DOTALL)
ALPHABET = "Sab xX1.9/@*[]{}()<>=!,;:-+'\"\n\t#é$&|~"


def seeds() -> list[str]:
    files = [*ROOT.glob("feeds/samples/*.xscl"), *ROOT.glob("bench/*.xscl")]
    files += [*ROOT.glob("feeds/samples/*.xscl")] * 20 + [
        *ROOT.glob("tests/language/errors/*.xscl")
    ]
    return [file.read_text(encoding="utf-8", errors="replace") for file in sorted(files)]


def mutate(rng: random.Random, text: str) -> str:
    tokens = TOKENS.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not tokens:
            break
        i = rng.randrange(len(tokens))
        match rng.randint(0, 4):
            case 0:
                del tokens[i]
            case 1:
                tokens.insert(i, tokens[i])
            case 2:
                j = rng.randrange(len(tokens))
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = rng.choice(ALPHABET)
            case _:
                del tokens[i : i + rng.randint(1, 20)]
    return "".join(tokens)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    begin, accepted, texts = time.monotonic(), 0, seeds()
    for case in range(args.seed, args.seed + args.cases):
        rng = random.Random(case)
        if rng.random() < 0.3:
            text = "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 80)))
        else:
            text = mutate(rng, rng.choice(texts))
        try:
            tree = parse(text)
            again = parse(format_file(tree))
            assert again == tree, "printing and parsing again gives another tree"
            check([tree])
            accepted += 1
        except XsclError as error:
            if not str(error):
                raise
        except BaseException:
            print(f"seed {case}:\n{text}")
            raise
        if (case - args.seed + 1) % 10_000 == 0:
            print(f"{case - args.seed + 1:,} cases, {accepted:,} accepted", flush=True)
    print(f"{args.cases:,} cases in {time.monotonic() - begin:.0f} s, {accepted:,} accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
