"""A byte stream cut into frames, and frames joined into bytes.

    0        4            5             8               8 + header size
    +--------+------------+-------------+---------------+------+
    | length | serializer | header size | header        | body |
    +--------+------------+-------------+---------------+------+
      int32      uint8        uint24

`length` counts everything behind itself. What a header means is said in
`command.py`; nothing here knows a socket.
"""

from struct import Struct
from typing import Final, NamedTuple, final

from roquet.protocol.errors import BadFrame, ProtocolError, TooLarge

SERIALIZER_JSON: Final = 0
SERIALIZER_BINARY: Final = 1

FRAME_SIZE_MAX: Final = 16 * 1024 * 1024
# Properties fill 32 KiB at most and JSON can grow them six-fold; the reply to a large
# batch names every message id. Nothing honest comes near this.
HEADER_SIZE_MAX: Final = 8 * 1024 * 1024

PREFIX_SIZE: Final = 8
_PREFIX: Final = Struct(">iI")
_unpack_prefix = _PREFIX.unpack_from
_pack_prefix = _PREFIX.pack


class Frame(NamedTuple):
    serializer: int
    header: bytes
    body: bytes


# Half the price of calling the class, which matters to nothing but the loop that cuts frames.
_new_frame = tuple.__new__


def encode_frame(serializer: int, header: bytes, body: bytes = b"") -> bytes:
    header_size = len(header)
    return b"".join(
        (
            _pack_prefix(4 + header_size + len(body), serializer << 24 | header_size),
            header,
            body,
        )
    )


@final
class FrameDecoder:
    """Cuts whole frames from a stream that arrives in any pieces.

    After an error the stream cannot be trusted any more; the owner closes the connection.
    """

    __slots__ = ("_frame_size_max", "_header_size_max", "_parts", "_parts_size", "_wanted_size")

    def __init__(
        self, frame_size_max: int = FRAME_SIZE_MAX, header_size_max: int = HEADER_SIZE_MAX
    ) -> None:
        self._frame_size_max = frame_size_max
        self._header_size_max = header_size_max
        self._parts: list[bytes] = []
        self._parts_size = 0
        # Nothing can be decided before this many bytes of the first unfinished frame are there.
        self._wanted_size = PREFIX_SIZE

    @property
    def pending_size(self) -> int:
        """Bytes of a frame that has begun but not ended."""
        return self._parts_size

    def cut(self, data: bytes) -> list[Frame]:
        """All frames that `data` completes. Raises BadFrame or TooLarge.

        Frames before a bad one are still handed out; the bad one is raised by the next call.
        """
        if self._parts:
            self._parts.append(data)
            self._parts_size += len(data)
            if self._parts_size < self._wanted_size:
                return []
            # Joined once per decision and not once per piece, so a large frame in
            # small pieces stays linear.
            data = b"".join(self._parts)
            self._parts.clear()
        frames: list[Frame] = []
        position = 0
        end = len(data)
        length_max = self._frame_size_max - 4
        header_size_max = self._header_size_max
        while end - position >= PREFIX_SIZE:
            length, mixed = _unpack_prefix(data, position)
            header_size = mixed & 0xFFFFFF
            serializer = mixed >> 24
            if not (
                header_size + 4 <= length <= length_max
                and header_size <= header_size_max
                and serializer <= SERIALIZER_BINARY
            ):
                if not frames:
                    raise self._error_of(length, serializer, header_size)
                self._wanted_size = PREFIX_SIZE
                break
            next_position = position + 4 + length
            if next_position > end:
                self._wanted_size = 4 + length
                break
            body_position = position + PREFIX_SIZE + header_size
            header = data[position + PREFIX_SIZE : body_position]
            frames.append(
                _new_frame(Frame, (serializer, header, data[body_position:next_position]))
            )
            position = next_position
        else:
            self._wanted_size = PREFIX_SIZE
        self._parts_size = end - position
        if position < end:
            self._parts.append(data[position:] if position else data)
        return frames

    def _error_of(self, length: int, serializer: int, header_size: int) -> ProtocolError:
        if length < 4 or header_size > length - 4:
            return BadFrame(f"length {length} does not fit a header of {header_size} bytes")
        if length + 4 > self._frame_size_max:
            return TooLarge("frame", length + 4, self._frame_size_max)
        if header_size > self._header_size_max:
            return TooLarge("header", header_size, self._header_size_max)
        return BadFrame(f"serializer {serializer} is unknown")
