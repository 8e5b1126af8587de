"""`roquet producers`: the connected producers of a cluster."""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Session, broker_name, define_command
from roquet.cli.admin_commands.failures import DONE, Failed
from roquet.client.admin.producers import ConnectedProducer
from roquet.client.errors import RequestRefused
from roquet.protocol.codes import ResponseCode
from roquet.reporting import Report, ReportTable

_COLUMNS = ("group", "client", "address", "language", "version", "last_seen")


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "List connected producers: group, client id, address, language, version, and when the last"
        " heartbeat came. A producer is connected to the brokers of the topics it sends to."
    )
    define_command(parser, _show)
    parser.add_argument("--group", help="Of this producer group only.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--topic",
        help="At the brokers of this topic only; they do not record who sends to which topic.",
    )
    where.add_argument("--broker", metavar="NAME", help="At this broker only: name, or host:port.")


async def _show(session: Session) -> int:
    rows = [
        (each.group, each.client_id, each.address, each.language, each.version, each.last_seen)
        for each in await _producers(session)
    ]
    session.finish(Report({}, [ReportTable("producers", _COLUMNS, rows)]))
    return DONE


async def _producers(session: Session) -> list[ConnectedProducer]:
    given = session.given
    broker = await broker_name(session, given.broker)
    try:
        return await session.partial.producers(given.group, topic=given.topic, broker=broker)
    except RequestRefused as refused:
        if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise Failed(f"{refused.address} cannot list all producers: name a --group") from None
        raise
