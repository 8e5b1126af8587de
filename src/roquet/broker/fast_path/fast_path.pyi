from typing import final

from roquet.broker.broker import Broker
from roquet.net.connection import Connection
from roquet.protocol.frame_decoder import WholeFrames

@final
class FastPath:
    def __init__(self, broker: Broker, *, has_pulls: bool) -> None: ...
    def take(
        self, connection: Connection, frames: WholeFrames, replies: list[bytes], size_max: int
    ) -> int: ...
