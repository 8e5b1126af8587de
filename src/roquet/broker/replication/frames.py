"""What is sent over a link, in the format of Apache 4.9, which has no handshake.

From slave to master, again and again:

      0  int64  the end of its log. The first one is where it wants to resume, the others
                confirm what it has; only the last one counts.

From master to slave:

      0  int64  physical offset of the bytes that follow
      8  int32  how many there are; 0 for a heartbeat
     12  ...    bytes of the log as they lie there, of one file, cut anywhere

Between brokers of ours that have a secret in common (see `handshake`) each is longer:

    report      0  int64  epoch of the link
                8  int64  the end of the slave's log

    frame       0  int64  epoch of the master
                8  int64  the end of its log, so that the slave knows its lag
               16  int64  physical offset of the bytes that follow
               24  int32  how many there are; 0 for a heartbeat
               28  ...    bytes of the log
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple, final

import msgspec

from roquet.broker.replication.errors import BadLogFrame, Outdated

_REPORT: Final = Struct(">q")
_HEADER: Final = Struct(">qi")

encode_report = _REPORT.pack
encode_header = _HEADER.pack

_EPOCH_REPORT: Final = Struct(">qq")
_EPOCH_HEADER: Final = Struct(">qqqi")

encode_epoch_report = _EPOCH_REPORT.pack
encode_epoch_header = _EPOCH_HEADER.pack


@final
class ReportReader:
    """Reports as the network cuts them. Those of a link with an epoch must be of that one."""

    def __init__(self, epoch: int | None = None) -> None:
        self._epoch = epoch
        self._layout = _REPORT if epoch is None else _EPOCH_REPORT
        self._rest = b""

    def last(self, data: bytes) -> int | None:
        """The last report that is whole by now; None if there is no new one. Raises Outdated."""
        data = self._rest + data
        size = self._layout.size
        whole = len(data) - len(data) % size
        self._rest = data[whole:]
        if not whole:
            return None
        *epochs, found = self._layout.unpack_from(data, whole - size)
        if epochs and epochs[0] != self._epoch:
            raise Outdated(min(epochs[0], self._epoch or 0), max(epochs[0], self._epoch or 0))
        assert isinstance(found, int)
        return found


class LogPiece(NamedTuple):
    """Bytes of the log. Those of one frame may come in several pieces."""

    physical_offset: int
    data: memoryview


@final
class FrameReader:
    """Frames as the network cuts them. Nothing is kept but a header that is not whole.

    Those of a link with an epoch must be of that one; `master_end` is the end in them.
    """

    def __init__(self, epoch: int | None = None) -> None:
        self._epoch = epoch
        self._layout = _HEADER if epoch is None else _EPOCH_HEADER
        self.master_end: int | None = None
        self._header = b""
        self._offset = 0
        self._left = 0

    def pieces(self, data: memoryview) -> Iterator[LogPiece]:
        """What is in `data`, without copying it; heartbeats are left out.

        Raises BadLogFrame and Outdated.
        """
        while data:
            if not self._left:
                data = self._read_header(data)
            piece = data[: self._left]
            if piece:
                yield LogPiece(self._offset, piece)
                self._offset += len(piece)
                self._left -= len(piece)
                data = data[len(piece) :]

    def _read_header(self, data: memoryview) -> memoryview:
        missing = self._layout.size - len(self._header)
        self._header += bytes(data[:missing])
        if len(self._header) == self._layout.size:
            *others, self._offset, self._left = self._layout.unpack(self._header)
            if others:
                self._check_epoch(others[0])
                self.master_end = others[1]
            if self._offset < 0 or self._left < 0:
                raise BadLogFrame(self._offset, self._left)
            self._header = b""
        return data[missing:]

    def _check_epoch(self, epoch: int) -> None:
        assert self._epoch is not None
        if epoch != self._epoch:
            raise Outdated(min(epoch, self._epoch), max(epoch, self._epoch))


# At most this many frames are handed to the socket at once. Other tasks run in between.
_FRAME_COUNT_MAX: Final = 16


class _Frame(msgspec.Struct, frozen=True):
    """What is still to be sent of one."""

    header: bytes
    start: int
    end: int


@final
class OutgoingFrames:
    """Which bytes a master sends next on one link, whatever part of them the network takes.

    Starts at `position`. A frame carries `frame_size_max` bytes, or fewer. The bytes of the log
    are not copied: they are handed to the socket where they lie.
    """

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
        # Of the frame that was started: what is left of its header, and where its bytes end.
        self._header = b""
        self._frame_end = position
        self._offered: list[_Frame] = []

    @property
    def is_in_frame(self) -> bool:
        return bool(self._header) or self.position < self._frame_end

    def heartbeat(self) -> None:
        """Have a frame without bytes sent; only between frames."""
        assert not self.is_in_frame
        self._header = self._encode_header(self.position, 0)

    def buffers(
        self, end: int, view_at: Callable[[int, int], memoryview]
    ) -> list[bytes | memoryview]:
        """What is to be sent of the log before `end`; `sent` is called with how much of it was.

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
