"""Where a slave goes on, and where a reader does."""

from typing import Final

from roquet.broker.replication.errors import SlaveAhead, SlaveBehind
from roquet.protocol.bodies.group_config import GroupConfig

MASTER_ID: Final = 0


def first_position(reported: int, log_start: int, log_end: int) -> int:
    """What a slave is sent first, whose log has come so far. Raises SlaveAhead and SlaveBehind.

    One that has nothing yet gets all there is. Apache would begin with its last file, and the copy
    would lack what is older for ever.
    """
    if reported == 0:
        return log_start
    if reported > log_end:
        raise SlaveAhead(reported, log_end)
    if reported < log_start:
        raise SlaveBehind(reported, log_start)
    return reported


def suggested_broker(group: GroupConfig | None, *, is_behind: bool) -> int:
    """The id of the broker that a group should pull from next, where slaves may be read.

    `is_behind` says that what it reads has left the memory: a slave can fetch it from disk as well.
    """
    if group is None:
        return MASTER_ID
    return group.which_broker_when_consume_slowly if is_behind else group.broker_id
