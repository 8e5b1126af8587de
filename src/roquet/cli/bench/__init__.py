"""`roquet bench`: Apache's benchmark, with its flags and its columns, so that figures compare.

`counting` is what is counted and how lines are made of it; `producing`, `consuming` and
`transacting` are the benchmarks. Threads of Apache's are tasks here.
"""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Commands
from roquet.cli.bench.consuming import define_consumer
from roquet.cli.bench.producing import define_batch_producer, define_producer
from roquet.cli.bench.transacting import define_transaction_producer


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Apache's benchmark programs, with their flags and columns. Credentials come from where"
        " they come from for all commands."
    )
    commands = Commands(parser)
    define_producer(commands)
    define_batch_producer(commands)
    define_consumer(commands)
    define_transaction_producer(commands)
