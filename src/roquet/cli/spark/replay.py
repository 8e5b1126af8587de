"""`roquet spark replay`: messages of a topic or a lake are sent again."""

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import define_cluster, define_json, options_of
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, session
from roquet.cli.spark.selecting import define_selection, selection_of
from roquet.reporting import FINISHED, Fact, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from pyspark.sql import Row

    from roquet.pipeline.jobs.replay import Preview, ReplayPlan

DESCRIPTION: Final = """\
Send messages of topics or of a lake to a topic. Without --yes nothing is sent.

It shows first what would be sent, and the command that sends exactly that.
Each message becomes one new message: a replay that was interrupted is run
again with the same --ending-offsets, which keeps the same --write-id, and
sends only what is missing.
"""

_BODY_SHOWN: Final = 60


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_selection(parser)
    parser.add_argument("--to", required=True, metavar="TOPIC", help="The topic to send to.")
    parser.add_argument(
        "--to-name-server",
        metavar="HOST:PORT",
        help="Of another cluster that has this topic; keys and encryption are the same.",
    )
    parser.add_argument("--yes", action="store_true", help="Send.")
    parser.add_argument(
        "--rate", type=whole_number(1), metavar="N", help="At most so many messages a second."
    )
    parser.add_argument(
        "--write-id",
        metavar="ID",
        help="Names what is sent, so that it is not sent twice; made of the rest if left out.",
    )
    parser.add_argument(
        "--keep-order",
        action="store_true",
        help="Messages of one queue go to one queue, in their order.",
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("replay", given, lambda it: _replay(it, given)))


def _replay(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.replay import (  # noqa: PLC0415
        ReplayPlan,
        check_replay,
        preview,
        replay,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    plan = check_replay(
        ReplayPlan(
            selection=selection_of(reporter, given),
            target=_target(given),
            topic=given.to,
            rate=given.rate,
            write_id=given.write_id,
            keeps_order=given.keep_order,
        )
    )
    command = _sending_command(plan, sys.argv[1:])
    if given.yes:
        reporter.say(f"if it is interrupted, go on with: {command}")
    with session(reporter, given) as spark, reporter.progress("tasks") as progress:
        started_s = time.monotonic()
        with tasks_shown(spark, progress):
            report = (
                _sent(replay(spark, plan)._asdict(), started_s)
                if given.yes
                else preview_report(preview(spark, plan), plan, command)
            )
    reporter.finish(report)
    return FINISHED


def _target(given: Namespace) -> dict[str, str]:
    """Another cluster is reached in the same way."""
    elsewhere = options_of(nameServer=given.to_name_server)
    return broker_options(given) | elsewhere


def _sent(facts: Mapping[str, Fact], started_s: float) -> Report:
    elapsed_s = time.monotonic() - started_s
    return Report({"is_sent": True, **facts, "seconds": round(elapsed_s, 3)})


def preview_report(found: "Preview", plan: "ReplayPlan", command: str) -> Report:
    stored = ("first_stored", "last_stored")
    return Report(
        {
            "is_sent": False,
            "messages": found.messages,
            "topic": plan.topic,
            "write_id": plan.id,
            "command": command,
        },
        [
            ReportTable(
                "by_topic",
                ("topic", "tags", "messages", *stored),
                [tuple(row) for row in found.by_topic],
            ),
            ReportTable(
                "first_messages",
                ("stored", "topic", "queue", "offset", "tags", "keys", "body"),
                [_shown_row(row) for row in found.first_rows],
            ),
        ],
    )


def _shown_row(row: "Row") -> tuple[Fact, ...]:
    queue = f"{row.brokerName}@{row.queueId}"
    body = bytes(row.body)[:_BODY_SHOWN].decode(errors="replace")
    return row.storeTimestamp, row.topic, queue, row.queueOffset, row.tags, row["keys"], body


def _sending_command(plan: "ReplayPlan", arguments: list[str]) -> str:
    """What was called, with what makes it exact, to be called again."""
    from roquet.pipeline.selection import ends_text  # noqa: PLC0415

    words = without_option(arguments, "--ending-offsets")
    words = without_option(words, "--write-id")
    words = [word for word in words if word != "--yes"]
    assert plan.selection.ends is not None
    words += ["--ending-offsets", ends_text(plan.selection.ends), "--write-id", plan.id, "--yes"]
    return shlex.join(["roquet", *words])


def without_option(words: list[str], name: str) -> list[str]:
    """Neither `--name value` nor `--name=value`."""
    kept: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word == name:
            is_value = True
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return kept
