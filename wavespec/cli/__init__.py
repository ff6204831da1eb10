"""The command line: arguments in, an exit code out.

0 ok, 1 wrong result or failed build, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every failure is a message on stderr, never a traceback."""
    # Lowering makes many small objects and no cycles: looking for some every 700 of them takes a quarter of its time.
    gc.set_threshold(20_000)
    try:
        from wavespec.cli.app import app
        from wavespec.cli.failures import report_failure
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("wavespec"):
            raise
        print(
            f"wavespec: the command line needs {error.name}: pip install 'wavespec[compiler]'",
            file=sys.stderr,
        )
        return 2
    try:
        app(args=None if arguments is None else list(arguments), prog_name="wavespec")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report_failure(error)
    return 0
