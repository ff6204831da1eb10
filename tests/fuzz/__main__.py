"""``python -m tests.fuzz --minutes 10 [--broken | --mutate | --variations] [--seed S]``: 1 where a failure is found.

``--broken`` tries texts with mistakes, ``--mutate`` specs of the project with nodes changed, lowered for every target,
``--variations`` those in other types, tiles and schedules, run with the same inputs on the CPU, in a simulator of a GPU
and, some of them, in an emulator of AMD's machine code.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.search import search, search_mutations
from tests.fuzz.search_variations import search_variations


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Search for specs that go wrong.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--broken", action="store_true", help="texts with mistakes, in place of valid specs")
    parser.add_argument("--mutate", action="store_true", help="specs of the project with nodes changed")
    parser.add_argument("--variations", action="store_true", help="specs of the project in other types and tiles")
    parser.add_argument("--count", type=int, default=0, help="of specs of the project, in place of minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first kernel of --variations")
    parser.add_argument("--processes", type=int, default=1, help="that try specs of the project")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    end = time.monotonic() + 60 * arguments.minutes

    def goes_on(number: int) -> bool:
        return number < arguments.count if arguments.count else time.monotonic() < end

    def tell(text: str) -> None:
        print(text, flush=True)

    if arguments.variations:
        summary = search_variations(
            arguments.seed, goes_on, first=arguments.first, processes=arguments.processes, tell=tell
        )
        print(summary)
        return 1 if summary.findings else 0
    if arguments.mutate:
        outcomes, found = search_mutations(arguments.seed, goes_on, processes=arguments.processes, tell=tell)
        for place, count in found.counts.most_common():
            print(f"{count} x {place}")
        print(outcomes)
        return 1 if outcomes.failures else 0
    outcomes = search(arguments.seed, goes_on, broken=arguments.broken, tell=tell)
    print(outcomes)
    return 1 if outcomes.failures else 0


if __name__ == "__main__":
    sys.exit(main())
