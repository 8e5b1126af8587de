"""The ports of a broker.

    port        everything
    port - 2    the same without pulls: the "fast" port of old clients and of Apache slaves
    port + 1    replication

The distances are fixed: peers compute one port from the other.
"""

from typing import Final

FAST_PORT_DISTANCE: Final = -2
HA_PORT_DISTANCE: Final = 1
