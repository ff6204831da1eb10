"""``python -m tests.fuzz --minutes 10 [--broken] [--seed S]``: exit code 1 where a failure is found."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.search import search


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Search for specs that go wrong.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--broken", action="store_true", help="texts with mistakes, in place of valid specs")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    end = time.monotonic() + 60 * arguments.minutes
    outcomes = search(
        arguments.seed,
        lambda _: time.monotonic() < end,
        broken=arguments.broken,
        tell=lambda text: print(text, flush=True),
    )
    print(outcomes)
    return 1 if outcomes.failures else 0


if __name__ == "__main__":
    sys.exit(main())
