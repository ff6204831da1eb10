"""The commands, a line each; a command imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from wavespec.cli import build, cache, check, expand, failures, project, run, show, tune
from wavespec.version import __version__

app = typer.Typer(
    name="wavespec",
    help="GPU and CPU kernels for PyTorch from declarative specs.",
    epilog="Exit codes: 0 ok, 1 wrong result or failed build, 2 bad input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("check")(check.check)
app.command("build")(build.build)
app.command("run")(run.run)
app.command("bench")(run.bench)
app.command("tune")(tune.tune)
app.command("show")(show.show)
app.command("expand")(expand.expand)
app.command("schema")(project.schema)
app.command("generate")(project.generate)
app.add_typer(cache.app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wavespec {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an internal error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """What all commands share."""
    failures.MODE.debug = debug
    failures.MODE.json = False
