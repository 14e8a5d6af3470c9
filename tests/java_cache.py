"""Java's ahead-of-time cache for the tests that start Spark: made before the first of them."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from functools import cache


@cache
def ensure_java_cache() -> None:
    """Make the cache unless it is there; processes of tests that come meanwhile wait for it."""
    from broker.spark.java_cache import cache_directory, find_cache
    from broker.spark.session import local_cache_key

    directory, key = cache_directory(), local_cache_key()
    if directory is None or key is None:
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_cache(directory, key) is not None:
            return
        # Without a cache Spark starts as well, only later.
        subprocess.run([sys.executable, "-m", "broker.spark.training"], check=False)


if __name__ == "__main__":
    ensure_java_cache()
