"""Which bytes a master sends next on one link, whatever part of them the network takes at a time.

The bytes of the log are not copied: they are handed to the socket where they lie.
"""

from collections.abc import Callable
from typing import Final, final

import msgspec

from roquet.broker.replication.frames import encode_header

# At most this many frames are handed to the socket at once. Others have their turn in between.
_FRAME_COUNT_MAX: Final = 16


class _Frame(msgspec.Struct, frozen=True):
    """What is still to be sent of one."""

    header: bytes
    start: int
    end: int


@final
class OutgoingFrames:
    """Begins at `position`. A frame carries `frame_size_max` bytes, or fewer."""

    def __init__(
        self,
        position: int,
        frame_size_max: int,
        encode_header: Callable[[int, int], bytes] = encode_header,
    ) -> None:
        self._encode_header = encode_header
        # Everything before it was sent.
        self.position = position
        self._frame_size_max = frame_size_max
        # Of the frame that was begun: what is left of its header, and where its bytes end.
        self._header = b""
        self._frame_end = position
        self._offered: list[_Frame] = []

    @property
    def is_in_frame(self) -> bool:
        return bool(self._header) or self.position < self._frame_end

    def sign_of_life(self) -> None:
        """Have a frame without bytes sent; only between frames."""
        assert not self.is_in_frame
        self._header = self._encode_header(self.position, 0)

    def buffers(
        self, end: int, view_at: Callable[[int, int], memoryview]
    ) -> list[bytes | memoryview]:
        """What is to be sent of the log before `end`; `sent` has to say how much of it was.

        `view_at` gives bytes of one file. The caller releases the views.
        """
        offered = self._offered = []
        found: list[bytes | memoryview] = []
        position = self.position
        if self.is_in_frame:
            offered.append(_Frame(self._header, position, self._frame_end))
            found += [self._header, view_at(position, self._frame_end - position)]
            position = self._frame_end
        while position < end and len(offered) < _FRAME_COUNT_MAX:
            view = view_at(position, min(self._frame_size_max, end - position))
            if not view:
                break
            header = self._encode_header(position, len(view))
            frame = _Frame(header, position, position + len(view))
            offered.append(frame)
            found += [frame.header, view]
            position = frame.end
        return found

    def sent(self, size: int) -> None:
        """The socket took this many bytes of the buffers."""
        for frame in self._offered:
            if not size:
                return
            from_header = min(size, len(frame.header))
            from_log = min(size - from_header, frame.end - frame.start)
            self._header = frame.header[from_header:]
            self._frame_end = frame.end
            self.position = frame.start + from_log
            size -= from_header + from_log
