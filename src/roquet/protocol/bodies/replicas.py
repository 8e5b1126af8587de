"""How a master and its slaves see each other (907, 1007)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.fields import Int32, Int64


class SlaveConnection(Body, kw_only=True):
    """One slave, seen from its master."""

    addr: str | None = None
    diff: Int64 = always(0)
    in_sync: bool = always(False)
    slave_ack_offset: Int64 = always(0)
    transfer_from_where: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class MasterConnection(Body, kw_only=True):
    """The master, seen from a slave."""

    last_read_timestamp: Int64 = always(0)
    last_write_timestamp: Int64 = always(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = always(0)
    max_offset: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HaStatus(Body, kw_only=True):
    """Reply to 907."""

    ha_client_runtime_info: MasterConnection = always(MasterConnection())
    ha_connection_info: list[SlaveConnection] = always([])
    in_sync_slave_nums: Int32 = always(0)
    master: bool = always(False)
    master_commit_log_max_offset: Int64 = always(0)


class EpochRange(Body, kw_only=True):
    """The part of the log that one master wrote; the last one ends at the largest number."""

    end_offset: Int64 = always(2**63 - 1)
    epoch: Int32
    start_offset: Int64


class EpochList(Body, kw_only=True):
    """Reply to 1007."""

    broker_id: Int64 = always(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: list[EpochRange] = always([])
    max_offset: Int64 = always(0)
