"""Recorded frames in a file or a pipe, in any of the forms that people have them in.

    raw bytes    begin with the length of a frame, so with byte 0 or 1
    JSON lines   begin with "{"; whole frames are the base64 text in the member "b64"
    hex lines    everything else; a line holds whole frames

The content of a frame is not parsed here.
"""

import base64
import binascii
from collections.abc import Iterator
from io import BufferedIOBase, BufferedReader, BytesIO
from typing import Final, NamedTuple

import msgspec

from roquet.protocol.errors import BadFrame, ProtocolError
from roquet.protocol.frame import FRAME_SIZE_MAX, PREFIX_SIZE, Frame
from roquet.protocol.frame_decoder import FrameDecoder

# Hex takes two digits for a byte; the rest is room for the other members of a JSON line.
LINE_SIZE_MAX: Final = 2 * FRAME_SIZE_MAX + 64 * 1024

_RAW_FIRST_BYTES: Final = (b"\0", b"\1")


class RecordedFrame(NamedTuple):
    place: str
    frame: Frame
    request_code: int | None = None  # what a response answers, if the recorder knew


class Unreadable(NamedTuple):
    place: str
    reason: str


def recorded_frames(source: BufferedReader) -> Iterator[RecordedFrame | Unreadable]:
    """Everything in `source`, in order. Raises nothing but OSError."""
    if source.peek(1)[:1] in _RAW_FIRST_BYTES:
        return _of_stream(source)
    return _of_lines(source)


def _of_stream(source: BufferedReader) -> Iterator[RecordedFrame | Unreadable]:
    position = 0
    try:
        while frame := _next_frame(source):
            yield RecordedFrame(f"byte {position}", frame)
            position += PREFIX_SIZE + len(frame.header) + len(frame.body)
    except ProtocolError as error:
        # The start of the next frame is unknown, so reading ends here.
        yield Unreadable(f"byte {position}", str(error))


def _of_lines(source: BufferedReader) -> Iterator[RecordedFrame | Unreadable]:
    number = 0
    while line := source.readline(LINE_SIZE_MAX + 1):
        number += 1
        place = f"line {number}"
        if len(line) > LINE_SIZE_MAX:
            yield Unreadable(place, f"longer than {LINE_SIZE_MAX} bytes")
            return
        if line := line.strip():
            yield from _of_line(place, line)


def _of_line(place: str, line: bytes) -> Iterator[RecordedFrame | Unreadable]:
    try:
        data, request_code = _read_json(line) if line.startswith(b"{") else _read_hex(line)
        source = BytesIO(data)
        while frame := _next_frame(source):
            yield RecordedFrame(place, frame, request_code)
    except ProtocolError as error:
        yield Unreadable(place, str(error))


def _next_frame(source: BufferedIOBase) -> Frame | None:
    """None at the end. Its length is checked before it is read."""
    prefix = source.read(PREFIX_SIZE)
    if not prefix:
        return None
    decoder = FrameDecoder()
    frames = decoder.cut(prefix)
    if not frames and len(prefix) == PREFIX_SIZE:
        frames = decoder.cut(source.read(int.from_bytes(prefix[:4]) - 4))
    if not frames:
        raise BadFrame(f"the input ends {decoder.pending_size} bytes into a frame")
    return frames[0]


class _JsonLine(msgspec.Struct):
    b64: str
    request_code: int | None = None


_decode_json_line = msgspec.json.Decoder(_JsonLine).decode


def _read_json(line: bytes) -> tuple[bytes, int | None]:
    try:
        entry = _decode_json_line(line)
        return base64.b64decode(entry.b64, validate=True), entry.request_code
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadFrame(f"not JSON with a frame in its member b64: {error}") from None


def _read_hex(line: bytes) -> tuple[bytes, int | None]:
    try:
        return binascii.unhexlify(b"".join(line.split())), None
    except binascii.Error:
        raise BadFrame("neither a frame, nor JSON, nor hex") from None
