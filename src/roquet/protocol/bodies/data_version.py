"""The version of a table that one side keeps and another copies."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.fields import Int64


class DataVersion(Body, kw_only=True):
    """Two versions are the same when all members are equal; there is no order among them."""

    counter: Int64 = always(0)
    state_version: Int64 = 0  # epoch of the master that made the change, in 5.x
    timestamp: Int64 = always(0)
