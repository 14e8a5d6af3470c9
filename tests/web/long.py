"""The page with as much as it is made for: 60,000 subscriptions, and all matches scrolled through.

    python -m tests.web.long [--matches N] [--subscriptions N]

Prints what it took; fails where the page holds too much at once, or something is not shown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.service.process import Process
from tests.web.harness import chromium, sign_in
from tests.web.many import look_at_subscriptions, publish_pairs, registered, scroll_to_the_end

MOST_NODES = 20_000
"""Elements that the page may have at once, however many matches there are."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--matches", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0, help="makes no difference")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        state = Path(scratch) / "many"
        registered(state, asked.subscriptions)
        with Process(state) as service:
            page = browser.new_page()
            sign_in(page, service)
            begun = time.monotonic()
            look_at_subscriptions(page, asked.subscriptions)
            took = time.monotonic() - begun
            print(f"{asked.subscriptions:,} subscriptions: seen in {took:.1f} s")
            page.close()
        with Process(Path(scratch) / "matches") as service:
            count = publish_pairs(service, max(1, asked.matches // 100))
            page = browser.new_page()
            sign_in(page, service)
            begun = time.monotonic()
            found = scroll_to_the_end(page)
            took = time.monotonic() - begun
            print(
                f"{count:,} matches: scrolled through in {took:.0f} s, at most {found.nodes:,}"
                f" elements, longest task {found.task:.0f} ms, {found.memory / 1e6:.0f} MB"
            )
            page.close()
    return found.nodes > MOST_NODES


if __name__ == "__main__":
    sys.exit(main())
