"""`roquet mqadmin`: the names and flags of Apache's tool, for existing scripts and habits.

Most are translated to a command of ours, which does the work and reports the result. What only
Apache's tool has is done in the modules beside this one, by subject.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final

from roquet.cli.admin_commands.commands import define_command, run_act
from roquet.cli.main import run_command
from roquet.cli.mqadmin import (
    brokers,
    exports,
    groups,
    messages,
    name_servers,
    response_times,
    topics,
    users,
)
from roquet.cli.mqadmin.declaring import Command, option

COMMANDS: Final = {
    **topics.COMMANDS,
    **brokers.COMMANDS,
    **name_servers.COMMANDS,
    **groups.COMMANDS,
    **messages.COMMANDS,
    **response_times.COMMANDS,
    **exports.COMMANDS,
    **users.COMMANDS,
}


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Commands of Apache's mqadmin, with its names and flags. As there, changes are made"
        " without confirmation."
    )
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, command in COMMANDS.items():
        own = names.add_parser(
            name, help=command.summary, description=command.summary, allow_abbrev=False
        )
        own.add_argument("-n", "--namesrvAddr", metavar="ADDRESSES")
        own.add_argument("--json", action="store_true", help="Print JSON.")
        for flag in command.flags:
            flag.define(own)
        own.set_defaults(run=_runner(own.prog, command))


def _runner(prog: str, command: Command) -> Callable[[Namespace], int]:
    def run(given: Namespace) -> int:
        words = [*option("-n", given.namesrvAddr), *(["--json"] if given.json else [])]
        todo = command.does(given)
        if isinstance(todo, list):
            return run_command([*todo, *words])
        # The cluster is given as in all our commands.
        access = ArgumentParser(prog)
        define_command(access, todo)
        return run_act(prog, access.parse_args(words, given), todo)

    return run
