"""`roquet up`: a whole cluster as one command."""

from pathlib import Path
from typing import Annotated

import typer


def up_command(
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Where messages are kept. Without it they are gone when the cluster stops.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Without it, this machine only.")
    ] = "127.0.0.1",
    name_server_port: Annotated[
        int, typer.Option(min=0, max=65535, help="0 takes any free port.")
    ] = 9876,
    broker_port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Of the first broker, the others follow; 0 takes any free ports."
        ),
    ] = 10911,
    brokers: Annotated[int, typer.Option(min=1, max=26, help="How many brokers.")] = 1,
) -> None:
    """Run a name server and brokers until SIGINT or SIGTERM; one line on stdout says ready."""
    # Imported here, so that no other command waits for it.
    from roquet.cli.up_process import ClusterPlan, run_cluster  # noqa: PLC0415
    from roquet.errors import RoquetError  # noqa: PLC0415

    try:
        run_cluster(ClusterPlan(directory, host, name_server_port, broker_port, brokers))
    except (RoquetError, OSError) as error:
        typer.echo(f"roquet up: {error}", err=True)
        raise typer.Exit(1) from None
