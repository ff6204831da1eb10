"""Jobs go in on stdin, a JSON line each; kernels are left in files, and a JSON line each comes out on stdout.

A process of its own, so that a crash of the compiler costs one candidate and not the search.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import build_variant, emit_variants, join_variants
from wavespec.runtime.files import replace_file
from wavespec.runtime.manifest import pack_artifact
from wavespec.schema.load import loads_plain
from wavespec.targets.machine import variants


def compile_job(job: dict[str, Any], cache: CompileCache) -> str | None:
    """Compile the plain spec ``job["spec"]`` for the ``variants`` of ``target`` into ``output``, or without ``code``
    emit it; returns what is wrong with it, or None."""
    try:
        spec = loads_plain(job["spec"])
        chosen = [machine for machine in variants(job["target"]) if machine.variant in job["variants"]]
        if job["code"]:
            artifact = join_variants([build_variant(spec, machine, cache=cache)[0] for machine in chosen])
        else:
            artifact = emit_variants(spec, chosen)
    except WavespecError as error:
        first = error.diagnostics[0]
        return f"{first.code}: {first.message}"
    except Exception as error:  # a bug: whoever asked finds it again, with its place
        return f"internal-error: {type(error).__name__}: {error}"
    replace_file(Path(job["output"]), pack_artifact(artifact))
    return None


def main() -> None:
    """Answer jobs until stdin ends."""
    # Whatever the compiler prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    gc.set_threshold(20_000)  # as in wavespec/cli
    cache = CompileCache()
    for line in sys.stdin:
        answers.write(json.dumps({"problem": compile_job(json.loads(line), cache)}) + "\n")


if __name__ == "__main__":
    main()
