"""A quick way for some frames of a connection, if its server has one."""

from typing import TYPE_CHECKING, Protocol

from roquet.protocol.frame_decoder import WholeFrames

if TYPE_CHECKING:
    from roquet.net.connection import Connection


class Lane(Protocol):
    """Answers frames that leave nothing to decide, where they lie. Others it leaves whole."""

    def take(
        self, connection: "Connection", frames: WholeFrames, replies: list[bytes], size_max: int
    ) -> int:
        """Answers frames up to the first that it leaves, and moves `frames.position` to that.

        What they are answered with at once is added to `replies`; returned is how many bytes that
        is. It stops when they are `size_max`, or more.
        """
