"""`roquet top`: topics, groups and brokers as they work.

`samples` queries the cluster and makes tables of two samples, `board` is the selected view and what
a key does to it, `screen` draws it and reads the keys.
"""

from argparse import ArgumentParser
from datetime import timedelta

from roquet.cli.admin_commands.commands import define_command
from roquet.cli.argument_types import time_span
from roquet.cli.top.board import TopView
from roquet.cli.top.screen import watch


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Watch topics, groups and brokers. Keys: t, g and b choose the table; up and down, or j and"
        " k, choose a row; Enter shows what is in it, Escape goes back; s sorts by the next column,"
        " r turns the order round; space pauses; q ends."
    )
    parser.add_argument(
        "view",
        nargs="?",
        choices=[each.value for each in TopView],
        default=TopView.GROUPS.value,
        help="What to begin with; groups if left out.",
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        default=timedelta(seconds=2),
        metavar="SPAN",
        help="Between two looks; 2s if left out.",
    )
    parser.add_argument(
        "--once", action="store_true", help="Two looks, one table, the end: for scripts."
    )
    define_command(parser, watch)
