"""Commands of mqadmin about name servers: their settings, and the pairs that they keep."""

from argparse import ArgumentTypeError, Namespace
from typing import Final

from roquet.cli.admin_commands.commands import Act, Session
from roquet.cli.admin_commands.failures import DONE, MISUSED, NOT_FOUND, Failed
from roquet.cli.mqadmin.declaring import TOPIC, Command, Flag, own
from roquet.client.errors import RequestRefused
from roquet.protocol.names import ORDER_NAMESPACE
from roquet.reporting import Report, ReportTable

# Not the namespace of topics and groups.
_NAMESPACE: Final = Flag("s", "namespace", is_required=True, to="kvNamespace")
_KEY: Final = Flag("k", "key", is_required=True)
_VALUE: Final = Flag("v", "value", is_required=True)


async def _put_pair(session: Session) -> int:
    given = session.given
    await session.admin.put_kv(given.kvNamespace, given.key, given.value)
    facts = {"namespace": given.kvNamespace, "key": given.key, "value": given.value}
    session.finish(Report(facts))
    return DONE


async def _delete_pair(session: Session) -> int:
    given = session.given
    await session.admin.delete_kv(given.kvNamespace, given.key)
    session.finish(Report({"namespace": given.kvNamespace, "deleted": given.key}))
    return DONE


async def _get_order(session: Session) -> int:
    topic = session.given.topic
    value = await session.admin.kv_value(ORDER_NAMESPACE, topic)
    if value is None:
        raise Failed(f"topic {topic!r} has no order configuration", NOT_FOUND)
    session.finish(Report({"topic": topic, "order": value}))
    return DONE


async def _put_order(session: Session) -> int:
    topic, value = session.given.topic, session.given.orderConf
    if value is None:
        raise Failed("-m put needs -v, such as broker-a:8;broker-b:8", MISUSED)
    await session.admin.put_kv(ORDER_NAMESPACE, topic, value)
    session.finish(Report({"topic": topic, "order": value}))
    return DONE


async def _delete_order(session: Session) -> int:
    topic = session.given.topic
    await session.admin.delete_kv(ORDER_NAMESPACE, topic)
    session.finish(Report({"topic": topic, "order": None}))
    return DONE


_ORDER_METHODS: Final[dict[str, Act]] = {
    "get": _get_order,
    "put": _put_order,
    "delete": _delete_order,
}


def _method(text: str) -> Act:
    """Raises ArgumentTypeError."""
    try:
        return _ORDER_METHODS[text]
    except KeyError:
        raise ArgumentTypeError(f"{text!r} is not get, put or delete") from None


def _order(given: Namespace) -> Act:
    act: Act = given.method
    return act


async def _show_settings(session: Session) -> int:
    found = await session.admin.name_server_config()
    rows = [
        (address, key, value)
        for address, settings in found.items()
        for key, value in sorted(settings.items())
    ]
    table = ReportTable("settings", ("name_server", "key", "value"), rows)
    session.finish(Report({}, [table]))
    return DONE


async def _change_setting(session: Session) -> int:
    given, admin = session.given, session.admin
    try:
        await admin.update_name_server_config({given.key: given.value})
    except RequestRefused as refused:
        # One that names the setting refuses the setting, not the account.
        if given.key not in (refused.remark or ""):
            raise
        text = f"{refused.remark}; set it in the config file of the name server"
        raise Failed(text) from None
    found = await admin.name_server_config()
    rows = [(address, given.key, settings.get(given.key)) for address, settings in found.items()]
    table = ReportTable("settings", ("name_server", "key", "value"), rows)
    session.finish(Report({}, [table]))
    return DONE


COMMANDS: Final = {
    "updateKvConfig": Command(
        "Set a value at all name servers.", [_NAMESPACE, _KEY, _VALUE], own(_put_pair)
    ),
    "deleteKvConfig": Command(
        "Delete a value at all name servers.", [_NAMESPACE, _KEY], own(_delete_pair)
    ),
    "updateOrderConf": Command(
        "Get, put or delete the brokers and queues of an ordered topic.",
        [TOPIC, Flag("m", "method", is_required=True, kind=_method), Flag("v", "orderConf")],
        _order,
    ),
    "getNamesrvConfig": Command("Settings of all name servers.", [], own(_show_settings)),
    "updateNamesrvConfig": Command(
        "Change a setting of all name servers.", [_KEY, _VALUE], own(_change_setting)
    ),
}
