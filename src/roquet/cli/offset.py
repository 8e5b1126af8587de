"""`roquet offset`: committed offsets of consumer groups, and resetting them."""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Commands, Session, define_confirmation, is_confirmed
from roquet.cli.admin_commands.failures import DONE, NOT_FOUND, Failed
from roquet.cli.argument_types import moment, queue_place, whole_number
from roquet.cli.group import progress_table
from roquet.client.admin.resets import ResetPlan, ResetTarget
from roquet.client.group.start_offset import StartFrom
from roquet.client.queue_ref import QueueRef
from roquet.reporting import Fact, Report, ReportTable

_MORE = """\
The effect is shown first; nothing is changed without --yes or a confirmation at
the terminal. Connected members continue at the new offsets within seconds.
"""


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    show = commands.add("show", "Show the committed offset of a group in each queue.", _show)
    show.add_argument("group")
    show.add_argument("--topic", help="In this topic only.")
    reset = commands.add("reset", "Reset the offsets of a group in a topic.", _reset, _MORE)
    _define_group_and_topic(reset)
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-start", action="store_true", help="To the first stored message.")
    to.add_argument("--to-end", action="store_true", help="To the end: only new messages.")
    to.add_argument(
        "--to-time",
        type=moment,
        metavar="TIME",
        help="To messages stored at this time or later; 90m is 90 minutes ago.",
    )
    to.add_argument("--to-offset", type=whole_number(0), metavar="OFFSET")
    _define_queues(reset)
    define_confirmation(reset)
    skip = commands.add("skip", "Skip all messages that are stored now.", _skip, _MORE)
    _define_group_and_topic(skip)
    _define_queues(skip)
    define_confirmation(skip)
    clone = commands.add(
        "clone", "Set the offsets of a group to those of another one.", _clone, _MORE
    )
    clone.add_argument("source", metavar="FROM-GROUP")
    clone.add_argument("group", metavar="TO-GROUP")
    clone.add_argument("topic")
    define_confirmation(clone)


def _define_group_and_topic(parser: ArgumentParser) -> None:
    parser.add_argument("group")
    parser.add_argument("topic")


def _define_queues(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--queue",
        action="append",
        type=queue_place,
        metavar="BROKER:QUEUE",
        help="In this queue only; can be repeated.",
    )


async def _show(session: Session) -> int:
    progress = await session.partial.progress(session.given.group, topic=session.given.topic)
    session.finish(Report({}, [progress_table(progress)]))
    return DONE


async def _reset(session: Session) -> int:
    given = session.given
    to: ResetTarget
    if given.to_time is not None:
        to = given.to_time
    elif given.to_offset is not None:
        to = given.to_offset
    else:
        to = StartFrom.FIRST if given.to_start else StartFrom.LAST
    return await _move(session, to)


async def _skip(session: Session) -> int:
    return await _move(session, StartFrom.LAST)


async def _clone(session: Session) -> int:
    given = session.given
    progress = await session.admin.progress(given.source, topic=given.topic)
    offsets = {
        each.queue: each.consumer_offset
        for each in progress.queues
        if each.consumer_offset is not None and each.queue.topic == given.topic
    }
    if not offsets:
        raise Failed(f"group {given.source!r} has no offsets in topic {given.topic!r}", NOT_FOUND)
    return await _apply(session, await session.admin.plan_reset(given.group, given.topic, offsets))


async def _move(session: Session, to: ResetTarget) -> int:
    given = session.given
    places = given.queue
    queues = None if places is None else [QueueRef(given.topic, *each) for each in places]
    # An unknown group would be created by this, and is more likely misspelled.
    await session.admin.progress(given.group, topic=given.topic)
    plan = await session.admin.plan_reset(given.group, given.topic, to, queues=queues)
    return await _apply(session, plan)


async def _apply(session: Session, plan: ResetPlan) -> int:
    session.finish(_plan_report(plan))
    if is_confirmed(session, f"Reset the offsets of group {plan.group}?"):
        await session.admin.apply_reset(plan)
        session.reporter.say("offsets reset")
    return DONE


def _plan_report(plan: ResetPlan) -> Report:
    facts: dict[str, Fact] = {
        "group": plan.group,
        "topic": plan.topic,
        "skipped": plan.skipped_count,
        "repeated": plan.repeated_count,
        "members": len(plan.members),
    }
    columns = ("broker", "queue", "committed", "new", "distance", "min_offset", "max_offset")
    rows = [
        (
            each.queue.broker_name,
            each.queue.queue_id,
            each.current,
            each.target,
            each.distance,
            each.min_offset,
            each.max_offset,
        )
        for each in plan.moves
    ]
    return Report(facts, [ReportTable("queues", columns, rows)])
