"""How a job is run: with Spark if it needs it, until its end or until somebody has seen enough."""

import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING

from roquet.reporting import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_job(name: str, given: Namespace, act: Callable[[Reporter], int]) -> int:
    """The exit code. What keeps a job from its work is told in one line."""
    reporter = Reporter(f"roquet spark {name}", as_json=given.json)
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        reporter.fail("Spark is not installed: pip install roquet[spark]")
    from roquet.pipeline.connections import close_readers  # noqa: PLC0415

    try:
        with reporter.failures_told():
            return act(reporter)
    finally:
        close_readers()


@contextmanager
def session(reporter: Reporter, given: Namespace) -> "Iterator[SparkSession]":
    """A session of Spark, whose start is said and waited for; `given` are the arguments of
    `define_cluster`. Raises NoSession.
    """
    from roquet.pipeline.session import spark_session  # noqa: PLC0415

    with ExitStack() as stack:
        with reporter.waiting(f"starting Spark on {given.master}, which takes some seconds"):
            starting = spark_session(
                reporter.command, given.master, given.archive, dict(given.conf)
            )
            spark = stack.enter_context(starting)
        yield spark


@contextmanager
def stopped_by_signals(reporter: Reporter, last_words: str) -> Iterator[Event]:
    """Set by the first signal that ends a process; the second one does not wait."""
    stop = Event()

    def handle(number: int, frame: object) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        reporter.say(last_words)

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def speed_of(messages: int, elapsed_s: float) -> dict[str, float]:
    """The facts about it in a report."""
    return {
        "seconds": round(elapsed_s, 3),
        "messages_per_second": round(messages / elapsed_s, 1),
    }
