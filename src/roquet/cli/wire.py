"""`roquet wire`: look at what peers say to each other."""

import os
import sys
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Final

import typer

_STDIN: Final = Path("-")

app = typer.Typer(no_args_is_help=True, help="Look at what peers say to each other.")


@app.command()
def decode(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", show_default=False, help="Standard input if left out."),
    ] = _STDIN,
) -> None:
    """Print every recorded frame as one line of JSON.

    The input is JSON lines with a member "b64", lines of hex, or the raw
    bytes of a connection; which of them is found out.

    A response is read by the code of its request: the member "request_code"
    of its line, or the last request with the same opaque.

    What is broken is named on standard error and makes the exit code 1.
    """
    # Imported here, so that no other command waits for it.
    from roquet.cli.frame_source import Unreadable, recorded_frames  # noqa: PLC0415
    from roquet.cli.frame_view import FrameViewer, View  # noqa: PLC0415

    viewer = FrameViewer()
    problem_count = 0
    with _open(file) as source:
        for recorded in recorded_frames(source):
            if isinstance(recorded, Unreadable):
                view = View(None, recorded.reason)
            else:
                view = viewer.view(recorded)
            if view.line is not None:
                typer.echo(view.line)
            if view.problem is not None:
                typer.echo(f"{file}: {recorded.place}: {view.problem}", err=True)
                problem_count += 1
    if problem_count:
        raise typer.Exit(1)


def _open(file: Path) -> BufferedReader:
    if file == _STDIN:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
