"""What a master sends, whatever part of it the network takes at a time."""

import random

import pytest

from roquet.broker.replication.frames import FrameReader, encode_header
from roquet.broker.replication.outgoing import OutgoingFrames

LOG = bytes(range(256)) * 8
FILE_SIZE = 300


def view_at(position: int, size_max: int) -> memoryview:
    file_end = (position // FILE_SIZE + 1) * FILE_SIZE
    return memoryview(LOG)[position : min(position + size_max, file_end)]


def drained(outgoing: OutgoingFrames, end: int, take: random.Random | None = None) -> bytes:
    """Everything it has to send, taken in pieces of any size."""
    stream = b""
    while buffers := outgoing.buffers(end, view_at):
        offered = b"".join(buffers)
        size = take.randint(0, len(offered)) if take else len(offered)
        outgoing.sent(size)
        stream += offered[:size]
    return stream


def test_frames_are_of_one_file_and_not_too_large() -> None:
    outgoing = OutgoingFrames(250, 64)
    stream = drained(outgoing, 400)
    sizes = [(250, 50), (300, 64), (364, 36)]
    expected = b"".join(encode_header(at, size) + LOG[at : at + size] for at, size in sizes)
    assert stream == expected
    assert outgoing.position == 400


@pytest.mark.parametrize("seed", range(20))
def test_it_goes_on_wherever_the_network_stopped(seed: int) -> None:
    outgoing = OutgoingFrames(5, 100)
    stream = drained(outgoing, 1999, random.Random(seed))
    pieces = list(FrameReader().pieces(memoryview(stream)))
    assert b"".join(bytes(data) for _, data in pieces) == LOG[5:1999]
    assert pieces[0].physical_offset == 5


def test_a_frame_that_was_begun_is_finished_though_the_log_has_grown() -> None:
    outgoing = OutgoingFrames(0, 100)
    outgoing.buffers(10, view_at)
    outgoing.sent(15)
    assert outgoing.is_in_frame
    header, rest = outgoing.buffers(10, view_at)[:2]
    assert (header, bytes(rest)) == (b"", LOG[3:10])


def test_a_sign_of_life_names_the_next_position() -> None:
    outgoing = OutgoingFrames(77, 100)
    outgoing.sign_of_life()
    assert drained(outgoing, 77) == encode_header(77, 0)
    assert not outgoing.is_in_frame


def test_without_anything_new_nothing_is_sent() -> None:
    assert OutgoingFrames(77, 100).buffers(77, view_at) == []
