"""How much old data consumer groups read, and how much they may (2003)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.fields import Int64


class ColdReads(Body, kw_only=True):
    cold_acc: Int64 = always(0)
    create_time_mills: Int64 | None = None
    last_cold_read_time_mills: Int64 | None = None


class ColdDataFlow(Body, kw_only=True):
    """Reply to 2003, by consumer group; thresholds in bytes."""

    cg_cold_read_threshold: Int64 = always(0)
    config_table: dict[str, Int64] = always({})
    global_acc: Int64 = always(0)
    global_cold_read_threshold: Int64 = always(0)
    runtime_table: dict[str, ColdReads] = always({})
