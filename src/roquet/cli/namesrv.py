"""`roquet namesrv`: runs a name server until it is told to stop."""

from pathlib import Path
from typing import Annotated

import typer


def namesrv_command(
    config_file: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="A properties file of an Apache name server."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on. Without it, this machine only."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes any.")
    ] = None,
    _name_servers: Annotated[
        str | None,
        typer.Option("-n", hidden=True, help="Taken because Apache takes it; means nothing here."),
    ] = None,
) -> None:
    """Run a name server: it tells clients which broker has which topic."""
    # Imported here, so that no other command waits for it.
    from roquet.cli.namesrv_process import run_name_server  # noqa: PLC0415
    from roquet.errors import RoquetError  # noqa: PLC0415

    try:
        run_name_server(config_file, host, port)
    except (RoquetError, OSError) as error:
        typer.echo(f"roquet namesrv: {error}", err=True)
        raise typer.Exit(1) from None
