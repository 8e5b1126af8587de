"""A message at the place that somebody says it has."""

from roquet.broker.broker import Broker
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.store.errors import BadRecord


def stored_record(broker: Broker, physical_offset: int) -> bytes:
    """Raises Refused if no record begins there."""
    try:
        return broker.store.record_at(physical_offset)
    except BadRecord as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
