"""`roquet frames`: decode recorded frames of the wire protocol."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from io import BufferedReader
from pathlib import Path
from typing import Final

from roquet.cli.frames.frame_source import Unreadable, recorded_frames
from roquet.cli.frames.frame_view import FrameLine, FrameViewer

_STDIN: Final = Path("-")
_MISUSED: Final = 2

_DECODE: Final = """\
Print every recorded frame as one line of JSON.

The input is JSON lines with a member "b64", lines of hex, or the raw
bytes of a connection; the form is detected.

A response is decoded by the code of its request: the member "request_code"
of its line, or the last request with the same opaque.

Broken frames are reported on standard error and make the exit code 1.
"""


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    decode = commands.add_parser(
        "decode",
        help="Print every recorded frame as one line of JSON.",
        description=_DECODE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    decode.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=_STDIN,
        metavar="FILE",
        help="Standard input if omitted.",
    )
    decode.set_defaults(run=_decode)


def _decode(given: Namespace) -> int:
    file: Path = given.file
    try:
        source = _open(file)
    except OSError as error:
        print(f"roquet frames decode: {file}: {error.strerror}", file=sys.stderr)
        return _MISUSED
    with source:
        return _print_frames(file, source)


def _print_frames(file: Path, source: BufferedReader) -> int:
    viewer = FrameViewer()
    problem_count = 0
    for recorded in recorded_frames(source):
        if isinstance(recorded, Unreadable):
            view = FrameLine(None, recorded.reason)
        else:
            view = viewer.view(recorded)
        if view.line is not None:
            print(view.line)
        if view.problem is not None:
            # Both may go to one terminal.
            sys.stdout.flush()
            print(f"{file}: {recorded.place}: {view.problem}", file=sys.stderr)
            problem_count += 1
    return 1 if problem_count else 0


def _open(file: Path) -> BufferedReader:
    """Raises OSError."""
    if file == _STDIN:
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    return file.open("rb")
