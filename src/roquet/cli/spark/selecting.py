"""Arguments of jobs that take some messages of a topic or a lake, and the selection they mean."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from roquet.cli.spark.arguments import moment, topic_options
from roquet.cli.spark.brokers import broker_options
from roquet.reporting import MISUSED, Reporter

if TYPE_CHECKING:
    from roquet.pipeline.selection import Selection


def define_selection(parser: ArgumentParser) -> None:
    """Where topics are is for who defines the rest: `define_brokers`."""
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument("--topic", help="Messages of this topic.")
    topics.add_argument("--topics", metavar="T,T", help="Messages of several topics.")
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help="Of all topics whose whole name matches."
    )
    parser.add_argument(
        "--lake", type=Path, metavar="DIR", help="Read them from a lake, not from brokers."
    )
    parser.add_argument(
        "--start",
        type=moment,
        metavar="TIME",
        help="Stored then or later: ms since 1970, or 2026-01-31T12:00:00Z (UTC without a zone).",
    )
    parser.add_argument("--end", type=moment, metavar="TIME", help="Stored before.")
    parser.add_argument("--tags", metavar="EXPRESSION", help="Only these: 'new || paid'.")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="KEY",
        help="Only messages with this key; may be repeated.",
    )
    parser.add_argument(
        "--where",
        metavar="SQL",
        help="Only messages for which this is true, in Spark's SQL:"
        " \"queueId = 0 AND properties['price'] > 3\".",
    )
    parser.add_argument(
        "--ending-offsets",
        metavar="JSON",
        help='Where queues end, {"orders": {"broker-a": {"0": 23}}}; others are left out.',
    )


def selection_of(reporter: Reporter, given: Namespace) -> "Selection":
    """Ends the command if it does not say what it means."""
    from roquet.pipeline.selection import Selection, read_ends  # noqa: PLC0415

    if given.lake is None and not (given.topic or given.topics or given.topic_pattern):
        reporter.fail("say which messages: give --topic, --topics or --topic-pattern", MISUSED)
    source = topic_options(given)
    if given.lake is None:
        source |= broker_options(given)
    return Selection(
        source=source,
        lake=given.lake,
        start=given.start,
        end=given.end,
        tags=given.tags,
        keys=tuple(given.key),
        where=given.where,
        ends=None if given.ending_offsets is None else read_ends(given.ending_offsets),
    )
