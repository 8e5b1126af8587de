"""`roquet bench`: Apache's benchmark, with its flags and columns, so that figures compare.

`counting` has the counters and prints the lines; `producing`, `consuming` and
`transacting` are the benchmarks. Apache's threads are tasks here.
"""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Commands
from roquet.cli.bench.consuming import define_consumer
from roquet.cli.bench.producing import define_batch_producer, define_producer
from roquet.cli.bench.transacting import define_transaction_producer


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Apache's benchmark programs, with their flags and columns. Credentials are read from the"
        " environment or the config file, as for all commands."
    )
    commands = Commands(parser)
    define_producer(commands)
    define_batch_producer(commands)
    define_consumer(commands)
    define_transaction_producer(commands)
