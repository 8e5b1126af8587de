"""How a job runs: with a Spark session if it needs one, to its end or until it is interrupted."""

import os
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from roquet.cli.admin_commands.access import name_server_of, read_config_file
from roquet.reporting import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobCommand(NamedTuple):
    """The first line of `description` is shown in the list of commands; `run` has the exit code."""

    description: str
    define: Callable[[ArgumentParser], None]
    run: Callable[[Reporter, Namespace], int]


def run_job(name: str, run: Callable[[Reporter, Namespace], int], given: Namespace) -> int:
    """The exit code. An error is reported in one line."""
    reporter = Reporter(f"roquet spark {name}", as_json=given.json)
    if not all(map(find_spec, ("numpy", "pyarrow", "pyspark"))):
        reporter.fail("Spark is not installed: pip install roquet[spark]")
    from roquet.pipeline.connections import close_readers  # noqa: PLC0415

    try:
        with failures_reported(reporter, given):
            return run(reporter, given)
    finally:
        close_readers()


@contextmanager
def failures_reported(reporter: Reporter, given: Namespace) -> Iterator[None]:
    """As those of the reporter; with the words of all commands if no name server answers."""
    from roquet.cli.admin_commands.failures import no_name_server_text  # noqa: PLC0415
    from roquet.client.errors import NoNameServer  # noqa: PLC0415

    with reporter.failures_reported():
        try:
            yield
        except NoNameServer as error:
            file = read_config_file(os.environ)
            place = name_server_of(given.name_server, os.environ, file)
            reporter.fail(no_name_server_text(error, *place))


@contextmanager
def session(reporter: Reporter, given: Namespace) -> "Iterator[SparkSession]":
    """A Spark session; `given` are the arguments of `define_cluster`. Raises NoSession."""
    from roquet.pipeline.session import spark_session  # noqa: PLC0415

    with ExitStack() as stack:
        with reporter.waiting(f"starting Spark on {given.master}, which takes some seconds"):
            starting = spark_session(
                reporter.command, given.master, given.archive, dict(given.conf)
            )
            spark = stack.enter_context(starting)
        yield spark


@contextmanager
def stopped_by_signals(reporter: Reporter, message: str) -> Iterator[Event]:
    """Set by the first SIGINT or SIGTERM; the second one ends the job at once.

    A failure of Spark after a signal is its end: service managers send it to all processes.
    """
    from roquet.pipeline.queries import QueryFailed  # noqa: PLC0415

    stop = Event()

    def handle(number: int, frame: object) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        reporter.say(message)

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    except (QueryFailed, ConnectionError):
        if stop.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def speed_of(messages: int, elapsed_s: float) -> dict[str, float]:
    """The facts about it in a report."""
    return {
        "seconds": round(elapsed_s, 3),
        "messages_per_second": round(messages / elapsed_s, 1),
    }
