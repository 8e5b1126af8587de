"""`roquet broker`: runs a broker until it is told to stop."""

from pathlib import Path
from typing import Annotated

import typer


def broker_command(
    config_file: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="A properties file of an Apache broker."),
    ] = None,
    name_servers: Annotated[
        str | None,
        typer.Option("-n", "--name-server", help="host:port of name servers, joined by ';'."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where messages are kept.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on. Without it, this machine only."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes any.")
    ] = None,
) -> None:
    """Run a broker: it takes messages, keeps them and hands them out."""
    # Imported here, so that no other command waits for it.
    from roquet.cli.broker_process import BrokerOptions, run_broker  # noqa: PLC0415
    from roquet.errors import RoquetError  # noqa: PLC0415

    try:
        run_broker(BrokerOptions(config_file, name_servers, directory, host, port))
    except (RoquetError, OSError) as error:
        typer.echo(f"roquet broker: {error}", err=True)
        raise typer.Exit(1) from None
