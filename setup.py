"""The build of the package, which pyproject.toml describes.

With BROKER_COMPILE=1 in the environment mypyc compiles the modules of the hot path, of the same
source; that takes mypy and a C compiler. Where one of them is missing, or fails, all stays plain
Python, and does the same.

    BROKER_COMPILE=1 pip wheel --no-deps --no-build-isolation --wheel-dir dist .
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = [
    "broker/documents/admission.py",
    "broker/documents/admitted.py",
    "broker/documents/arrow.py",
    "broker/documents/watermark.py",
    "broker/documents/witnessing.py",
    "broker/join/alternatives.py",
    "broker/join/budget.py",
    "broker/join/candidates.py",
    "broker/join/evicted.py",
    "broker/join/frequent.py",
    "broker/join/frequent_lookup.py",
    "broker/join/joiner.py",
    "broker/join/long_query.py",
    "broker/join/long_search.py",
    "broker/join/one_block.py",
    "broker/join/pair_query.py",
    "broker/join/postings.py",
    "broker/join/records.py",
    "broker/join/signatures.py",
    "broker/join/steps.py",
    "broker/join/template_runner.py",
    "broker/join/time_lists.py",
    "broker/pattern/in_order/channels.py",
    "broker/pattern/in_order/common.py",
    "broker/pattern/in_order/deferred.py",
    "broker/pattern/in_order/distinct.py",
    "broker/pattern/in_order/events.py",
    "broker/pattern/in_order/following.py",
    "broker/pattern/in_order/grouping.py",
    "broker/pattern/in_order/held.py",
    "broker/pattern/in_order/iterating.py",
    "broker/pattern/in_order/lacking.py",
    "broker/pattern/in_order/lists.py",
    "broker/pattern/in_order/member.py",
    "broker/pattern/in_order/offering.py",
    "broker/pattern/in_order/owned.py",
    "broker/pattern/in_order/partitions.py",
    "broker/pattern/in_order/run_checks.py",
    "broker/pattern/in_order/run_steps.py",
    "broker/pattern/in_order/running.py",
    "broker/pattern/in_order/seeking.py",
    "broker/pattern/in_order/spending.py",
    "broker/pattern/in_order/standing.py",
    "broker/pattern/instances.py",
    "broker/pattern/published.py",
    "broker/rendering/content.py",
    "broker/rendering/headline.py",
    "broker/rendering/rendering.py",
    "broker/results/contents.py",
    "broker/results/joined.py",
    "broker/results/match_ids.py",
    "broker/results/matches.py",
    "broker/results/publisher.py",
    "broker/shared_match.py",
    "broker/standing/arriving.py",
    "broker/standing/groups.py",
    "broker/standing/plain_results.py",
    "broker/standing/results.py",
    "broker/standing/ways.py",
    "broker/state/known_keys.py",
    "broker/state/outbox.py",
    "broker/state/relations.py",
    "xscl/stage1/course.py",
    "xscl/stage1/document.py",
    "xscl/stage1/paths.py",
    "xscl/stage1/positions.py",
    "xscl/stage1/reading.py",
    "xscl/stage1/states.py",
    "xscl/stage1/walk.py",
]
"""Native classes take no weak references, frozen ones cannot be unpickled, and a native function
has no local variables that DuckDB could find by name; what needs these is in other modules."""


def plainly(reason: object) -> None:
    print(f"warning: nothing is compiled: {reason}", file=sys.stderr)


def extensions() -> list[Extension]:
    if os.environ.get("BROKER_COMPILE", "0") in ("", "0"):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        plainly(error)
        return []
    return list(mypycify(["--strict", *COMPILED], opt_level="2"))


class AllOrNothing(build_ext):
    """The compiled modules share one library, so where one cannot be compiled none is."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            plainly(error)
            self.extensions = []


setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNothing})
