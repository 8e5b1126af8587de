"""`roquet top`: topics, groups and brokers as they work.

`samples` queries the cluster and makes tables of two samples, `board` is the selected view and what
a key does to it, `screen` draws it and reads the keys.
"""

from argparse import ArgumentParser
from datetime import timedelta

from roquet.cli.admin_commands.commands import define_command
from roquet.cli.admin_commands.listing import define_filter
from roquet.cli.argument_types import time_span
from roquet.cli.top.board import TopView
from roquet.cli.top.screen import watch


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Watch topics, groups and brokers. Keys: t, g and b select the table; up and down, or j and"
        " k, select a row; Enter shows its details, Escape goes back; / filters by name, Enter"
        " keeps the filter and Escape drops it; s sorts by the next column, r reverses the order;"
        " space pauses; q quits."
    )
    parser.add_argument(
        "view",
        nargs="?",
        choices=[each.value for each in TopView],
        default=TopView.GROUPS.value,
        help="Table to start with. Default: %(default)s.",
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        default=timedelta(seconds=2),
        metavar="SPAN",
        help="Interval between two samples. Default: 2s.",
    )
    define_filter(parser)
    parser.add_argument(
        "--once", action="store_true", help="Print one table and exit, for scripts."
    )
    define_command(parser, watch)
