"""Progress of messages that wait, which slaves copy from their master (45)."""

from roquet.access.needs import EVERYTHING
from roquet.broker.broker import Broker
from roquet.net.router import Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllProgressReplyHeader,
)


def get_all_delay_offsets(broker: Broker, request: Request[AllOffsetsHeader]) -> Reply:
    """A slave that knew more than its log has would lose messages with its master.

    One of ours is told for which log all this is true. Those of Apache are told of levels alone,
    and no more than is true for the shortest log among them.
    """
    progress, known_version = broker.progress, request.header.known_version
    if known_version is None:
        levels = progress.levels.value_at(broker.replication.replicas.apache_end)
        return Reply(body=write_body(DelayOffsetTable(offset_table=levels.offset_table)))
    version = progress.version
    header = AllProgressReplyHeader(version=version, epoch=broker.replication.epoch)
    if known_version == version:
        return Reply(header=header)
    return Reply(header=header, body=write_body(progress.snapshot()))


ROUTES = (
    on(
        RequestCode.GET_ALL_DELAY_OFFSET,
        AllOffsetsHeader,
        get_all_delay_offsets,
        needs=EVERYTHING,
    ),
)
