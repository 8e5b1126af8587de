"""`roquet spark story`: the life of a message."""

from argparse import ArgumentParser, Namespace
from typing import Final

from roquet.cli.spark.arguments import define_cluster, define_json, moment
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, session
from roquet.protocol.names import TRACE_TOPIC
from roquet.reporting import FINISHED, Report, Reporter, ReportTable

DESCRIPTION: Final = """\
Tell the life of a message: sent, stored, delivered, tried again, given up.

It is told from the message, its copies for retries and dead letters, the
offsets of groups, and trace records, where producers and consumers write
them.
"""


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    parser.add_argument("--topic", required=True, help="The topic it was sent to.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--id", help="The id its producer got, or that of its place.")
    which.add_argument("--key", help="All messages with this key.")
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="What became of it in this group; may be repeated. All that read the topic if left"
        " out.",
    )
    parser.add_argument(
        "--trace-topic", default=TRACE_TOPIC, metavar="TOPIC", help="Where trace records are."
    )
    parser.add_argument(
        "--start",
        type=moment,
        metavar="TIME",
        help="Look only at what was stored then or later; quicker.",
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("story", given, lambda it: _story(it, given)))


def _story(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.story import (  # noqa: PLC0415
        GroupState,
        StoryEvent,
        StoryPlan,
        story,
        story_places,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    plan = StoryPlan(
        brokers=broker_options(given),
        topic=given.topic,
        id=given.id,
        key=given.key,
        groups=tuple(given.group),
        trace_topic=given.trace_topic,
        start=given.start,
    )
    places = story_places(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("tasks") as progress,
        tasks_shown(spark, progress),
    ):
        told = story(spark, plan, places)
    reporter.finish(
        Report(
            {"messages": len({event.id for event in told.events})},
            [
                ReportTable("events", StoryEvent._fields, told.events),
                ReportTable("groups", GroupState._fields, told.groups),
            ],
        )
    )
    return FINISHED
