"""Why several kinds of requests are refused."""

from roquet.broker.broker import Broker
from roquet.net.errors import Refused
from roquet.protocol.codes import VERSION_5_0_0, ResponseCode
from roquet.protocol.command import Command


def invalid(command: Command, remark: str) -> Refused:
    """5.x has a code of its own for impossible parameters; 4.9 says that something failed."""
    is_new = command.version >= VERSION_5_0_0
    return Refused(ResponseCode.INVALID_PARAMETER if is_new else ResponseCode.SYSTEM_ERROR, remark)


def check_takes_messages(broker: Broker, command: Command) -> None:
    """Apache's slaves of 5.x refuse a send in other words than those of 4.9."""
    if broker.config.is_slave:
        is_new = command.version >= VERSION_5_0_0
        code = ResponseCode.SYSTEM_BUSY if is_new else ResponseCode.SERVICE_NOT_AVAILABLE
        raise Refused(code, "this is a slave: messages are taken by its master")
    if not broker.replication.replicas.may_acknowledge():
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE, "this master may not be the master any more"
        )


def check_is_master(broker: Broker) -> None:
    """A slave copies its tables from the master: what is changed here would be lost."""
    if broker.config.is_slave:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "a slave changes nothing by itself: ask the master"
        )
