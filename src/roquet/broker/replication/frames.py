"""What goes over a link, as Apache 4.9 has it. There is no greeting and no goodbye.

From slave to master, again and again:

      0  int64  how far its log has come. The first one says where it wants to go on, the
                others confirm what it has; only the last one counts.

From master to slave:

      0  int64  physical offset of the bytes that follow
      8  int32  how many there are; 0 for a sign of life
     12  ...    bytes of the log as they lie there, of one file, cut anywhere
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, final

from roquet.broker.replication.errors import BadFrame

_REPORT: Final = Struct(">q")
_HEADER: Final = Struct(">qi")
HEADER_SIZE: Final = _HEADER.size

encode_report = _REPORT.pack
encode_header = _HEADER.pack


@final
class ReportReader:
    """Reports as the network cuts them."""

    def __init__(self) -> None:
        self._rest = b""

    def last(self, data: bytes) -> int | None:
        """The last report that is whole by now; None if there is no new one."""
        data = self._rest + data
        whole = len(data) - len(data) % _REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        found: int = _REPORT.unpack_from(data, whole - _REPORT.size)[0]
        return found


class Piece(NamedTuple):
    """Bytes of the log. Those of one frame may come in several pieces."""

    physical_offset: int
    data: memoryview


@final
class FrameReader:
    """Frames as the network cuts them. Nothing is kept but a header that is not whole."""

    def __init__(self) -> None:
        self._header = b""
        self._offset = 0
        self._left = 0

    def pieces(self, data: memoryview) -> Iterator[Piece]:
        """What is in `data`, without copying it; signs of life are left out. Raises BadFrame."""
        while data:
            if not self._left:
                data = self._read_header(data)
            piece = data[: self._left]
            if piece:
                yield Piece(self._offset, piece)
                self._offset += len(piece)
                self._left -= len(piece)
                data = data[len(piece) :]

    def _read_header(self, data: memoryview) -> memoryview:
        missing = HEADER_SIZE - len(self._header)
        self._header += bytes(data[:missing])
        if len(self._header) == HEADER_SIZE:
            self._offset, self._left = _HEADER.unpack(self._header)
            if self._offset < 0 or self._left < 0:
                raise BadFrame(self._offset, self._left)
            self._header = b""
        return data[missing:]
