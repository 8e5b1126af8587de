"""Watching a server, on the command line: its pages over HTTP, and the form of its log."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from roquet.cli.serving.log_lines import LogForm
from roquet.net.addresses import read_place
from roquet.net.errors import BadAddress
from roquet.protocol.host import Address


def define_observing(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=_place,
        metavar="HOST:PORT",
        help="Where /metrics, /health and /ready are; nowhere if left out. A port alone is for this"
        " machine only, 0 takes any.",
    )
    parser.add_argument(
        "--log",
        type=LogForm,
        choices=list(LogForm),
        default=LogForm.TEXT,
        help="Lines of the log for people (text), or one JSON object in each (json).",
    )


def http_given(given: Namespace) -> dict[str, str]:
    """What was said on the command line, under the names of settings."""
    return {} if given.http is None else {"httpListen": str(given.http)}


def _place(text: str) -> Address:
    try:
        return read_place(text)
    except BadAddress:
        raise ArgumentTypeError(f"{text!r} is neither HOST:PORT nor a port") from None
