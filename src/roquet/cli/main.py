"""The root of the command line; groups of commands live in modules of their own."""

from typing import Annotated

import typer

from roquet import __version__
from roquet.cli import store, wire
from roquet.cli.broker import broker_command
from roquet.cli.namesrv import namesrv_command
from roquet.cli.up import up_command

app = typer.Typer(
    name="roquet",
    no_args_is_help=True,
    add_completion=False,
    # A traceback is for us, not for the screen of an operator, and it may show secrets.
    pretty_exceptions_enable=False,
)
app.command("up")(up_command)
app.command("namesrv")(namesrv_command)
app.command("broker")(broker_command)
app.add_typer(store.app, name="store")
app.add_typer(wire.app, name="wire")


def main() -> None:
    app()


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"roquet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """RocketMQ in Python: name server, broker, client and tools."""
