"""`roquet broker status` and others: administer a running broker; `broker.py` starts one."""

from argparse import ArgumentParser
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import count
from typing import Final

from roquet.cli.admin_commands.commands import Commands, Session, brokers_named
from roquet.cli.admin_commands.failures import DONE, NOT_FOUND, Failed
from roquet.cli.argument_types import pair, whole_number
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.errors import RequestRefused
from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode
from roquet.reporting import Fact, Report, ReportTable

_FORGETTING: Final = (
    "Name servers remember for a day a broker that left without unregistering: it crashed, or was\n"
    "killed or cut off. Until then `roquet cluster` and `roquet doctor` report it."
)


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Administer a running broker; `roquet broker --help` describes how to start one."
    )
    commands = Commands(parser)
    status = commands.add("status", "Show the runtime statistics of a broker.", _status)
    _define_broker(status)
    config = Commands(commands.parser("config", "Show or change the settings of a broker."))
    get = config.add("get", "Show settings, under Apache's names.", _get)
    _define_broker(get)
    get.add_argument(
        "keys", nargs="*", metavar="KEY", help="Setting, or a pattern such as flush*. Default: all."
    )
    set_ = config.add("set", "Change settings while the broker runs.", _set)
    _define_broker(set_)
    set_.add_argument("settings", nargs="+", type=pair, metavar="NAME=VALUE")
    writes = Commands(
        commands.parser("writes", "Forbid or allow writes at a broker, such as before maintenance.")
    )
    for name, summary in (
        ("forbid", "Forbid writes: producers use other brokers, consumers continue."),
        ("allow", "Allow writes again."),
    ):
        _define_broker(writes.add(name, summary, _allow if name == "allow" else _forbid))

    promote = commands.add("promote", "Promote a slave to master.", _promote)
    promote.add_argument("broker", metavar="ADDRESS", help="host:port of the slave.")
    promote.add_argument(
        "--force",
        action="store_true",
        help="Even if its master is running, or another slave has more or does not answer.",
    )
    demote = commands.add("demote", "Demote a master to slave.", _demote)
    _define_broker(demote)
    demote.add_argument(
        "--id",
        type=whole_number(1, 2**31 - 1),
        help="brokerId of the slave. Default: the first free one.",
    )
    demote.add_argument(
        "--force", action="store_true", help="Even if no slave has all messages of the master."
    )
    forget = commands.add(
        "forget", "Forget a lost broker, one that will not come back.", _forget, _FORGETTING
    )
    forget.add_argument("broker", metavar="ADDRESS", help="host:port of the lost broker.")


def _define_broker(parser: ArgumentParser) -> None:
    parser.add_argument("broker", metavar="BROKER", help="Its name, or host:port.")


async def _status(session: Session) -> int:
    broker = (await brokers_named(session, session.given.broker))[0]
    statistics = await session.admin.broker_runtime(broker.address)
    facts = {"broker": broker.broker_name, "role": broker.role, "address": broker.address}
    table = ReportTable("status", ("name", "value"), sorted(statistics.items()))
    session.finish(Report(facts, [table]))
    return DONE


async def _get(session: Session) -> int:
    broker = (await brokers_named(session, session.given.broker))[0]
    settings = await session.admin.broker_config(broker.address)
    wanted = session.given.keys
    rows = [
        (key, value)
        for key, value in sorted(settings.items())
        if not wanted or any(fnmatchcase(key, pattern) for pattern in wanted)
    ]
    if wanted and not rows:
        text = f"{broker.broker_name} has no setting {' or '.join(wanted)}; see all without a KEY"
        raise Failed(text, NOT_FOUND)
    session.finish(Report({}, [ReportTable("settings", ("key", "value"), rows)]))
    return DONE


async def _set(session: Session) -> int:
    """At master and slaves of that name, so that they do not differ."""
    changes = dict(session.given.settings)
    rows = []
    for broker in await brokers_named(session, session.given.broker):
        before = await session.admin.broker_config(broker.address)
        if unknown := changes.keys() - before.keys():
            text = f"{broker.broker_name} has no setting {', '.join(sorted(unknown))}"
            raise Failed(f"{text}; see: roquet broker config get {broker.broker_name}", NOT_FOUND)
        try:
            await session.admin.update_broker_config(broker.address, changes)
        except RequestRefused as error:
            raise _refusal(error, changes) from None
        after = await session.admin.broker_config(broker.address)
        rows += [
            (broker.broker_name, broker.role, key, before[key], after.get(key))
            for key in sorted(changes)
        ]
    columns = ("broker", "role", "key", "before", "after")
    session.finish(Report({}, [ReportTable("settings", columns, rows)]))
    return DONE


def _refusal(error: RequestRefused, changes: Mapping[str, str]) -> RoquetError:
    """A broker that names a setting in its refusal refuses the setting, not the account."""
    remark = error.remark or ""
    if error.code == ResponseCode.NO_PERMISSION and any(key in remark for key in changes):
        return Failed(f"{remark}; set it in the config file of the broker")
    return error


async def _forbid(session: Session) -> int:
    broker = (await brokers_named(session, session.given.broker))[0].broker_name
    count = await session.admin.forbid_writes(broker)
    session.finish(Report({"broker": broker, "writes": "forbidden", "topics": count}))
    return DONE


async def _allow(session: Session) -> int:
    broker = (await brokers_named(session, session.given.broker))[0].broker_name
    count = await session.admin.allow_writes(broker)
    session.finish(Report({"broker": broker, "writes": "allowed", "topics": count}))
    return DONE


async def _promote(session: Session) -> int:
    broker = await _known_or_at(session)
    promoted = await session.admin.promote_broker(broker.address, force=session.given.force)
    facts = {"role": "master", "epoch": promoted.epoch, "acknowledge": promoted.acknowledge}
    session.finish(Report(_facts(broker) | facts))
    return DONE


async def _demote(session: Session) -> int:
    broker = await _known_or_at(session)
    broker_id = session.given.id or await _free_id(session, broker)
    await session.admin.demote_broker(broker.address, broker_id, force=session.given.force)
    session.finish(Report(_facts(broker) | {"role": f"slave {broker_id}"}))
    return DONE


async def _forget(session: Session) -> int:
    lost = await session.admin.lost_brokers() or ()
    wanted = session.given.broker
    found = next((each for each in lost if each.address == wanted), None)
    if found is None:
        addresses = ", ".join(each.address for each in lost) or "none"
        raise Failed(f"broker {wanted!r} is not lost; lost brokers: {addresses}", NOT_FOUND)
    await session.admin.forget_broker(found)
    facts = {"broker": found.broker_name, "role": found.role, "address": found.address}
    session.finish(Report(facts))
    return DONE


async def _known_or_at(session: Session) -> BrokerInfo:
    """By address also unregistered: name servers drop a master that a later one has replaced."""
    wanted = session.given.broker
    try:
        return (await brokers_named(session, wanted))[0]
    except Failed:
        if ":" not in wanted:
            raise
        return BrokerInfo("", "", 0, wanted)


def _facts(broker: BrokerInfo) -> dict[str, Fact]:
    return {"broker": broker.broker_name, "address": broker.address}


async def _free_id(session: Session, broker: BrokerInfo) -> int:
    if not broker.broker_name:
        raise Failed("the broker is not registered, so free ids are unknown: give one with --id")
    taken = {each.broker_id for each in await brokers_named(session, broker.broker_name)}
    return next(number for number in count(1) if number not in taken)
