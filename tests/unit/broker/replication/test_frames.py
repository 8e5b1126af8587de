"""Frames and reports, however the network cuts them."""

import random

import pytest

from roquet.broker.replication.errors import BadLogFrame, Outdated
from roquet.broker.replication.frames import (
    FrameReader,
    OutgoingFrames,
    ReportReader,
    encode_epoch_header,
    encode_epoch_report,
    encode_header,
    encode_report,
)
from tests.support.golden_replication import recorded

CUTS = [1, 2, 7, 11, 12, 13, 100, 4096]


def in_cuts(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_a_frame_and_a_report_have_the_bytes_of_the_specification() -> None:
    assert encode_report(4096).hex() == "0000000000001000"
    assert encode_header(4096, 115).hex() == "000000000000100000000073"


@pytest.mark.parametrize("size", CUTS)
def test_bytes_of_the_log_do_not_depend_on_how_the_stream_was_cut(size: int) -> None:
    stream = encode_header(100, 3) + b"abc" + encode_header(103, 0) + encode_header(103, 2) + b"de"
    reader = FrameReader()
    found = [
        (offset + index, bytes([byte]))
        for cut in in_cuts(stream, size)
        for offset, data in reader.pieces(memoryview(cut))
        for index, byte in enumerate(bytes(data))
    ]
    assert found == [(100 + index, b"abcde"[index : index + 1]) for index in range(5)]


@pytest.mark.parametrize("header", [(-1, 5), (5, -1)])
def test_impossible_headers_are_refused(header: tuple[int, int]) -> None:
    with pytest.raises(BadLogFrame):
        list(FrameReader().pieces(memoryview(encode_header(*header))))


@pytest.mark.parametrize("size", CUTS)
def test_the_last_whole_report_counts(size: int) -> None:
    stream = b"".join(map(encode_report, (0, 17, 4096)))
    reader = ReportReader()
    found = [reader.last(cut) for cut in in_cuts(stream, size)]
    assert [each for each in found if each is not None][-1] == 4096
    assert reader.last(encode_report(1)[:7]) is None


def test_reports_of_an_apache_slave_are_read() -> None:
    reader = ReportReader()
    found = [reader.last(each) for each in recorded("slave")]
    assert found[0] == 0
    assert found[-1] == 50817


@pytest.mark.parametrize("size", CUTS)
def test_frames_with_an_epoch_say_how_far_the_master_is(size: int) -> None:
    stream = encode_epoch_header(7, 900, 100, 3) + b"abc" + encode_epoch_header(7, 950, 103, 0)
    reader = FrameReader(7)
    found = [
        (offset + index, byte)
        for cut in in_cuts(stream, size)
        for offset, data in reader.pieces(memoryview(cut))
        for index, byte in enumerate(bytes(data))
    ]
    assert found == list(zip(range(100, 103), b"abc", strict=True))
    assert reader.master_end == 950


@pytest.mark.parametrize("epoch", [6, 8])
def test_frames_and_reports_of_another_epoch_are_refused(epoch: int) -> None:
    with pytest.raises(Outdated):
        list(FrameReader(7).pieces(memoryview(encode_epoch_header(epoch, 900, 100, 0))))
    with pytest.raises(Outdated):
        ReportReader(7).last(encode_epoch_report(epoch, 100))


@pytest.mark.parametrize("size", CUTS)
def test_the_last_whole_report_of_an_epoch_counts(size: int) -> None:
    stream = encode_epoch_report(7, 5) + encode_epoch_report(7, 4096)
    reader = ReportReader(7)
    found = [reader.last(cut) for cut in in_cuts(stream, size)]
    assert [each for each in found if each is not None][-1] == 4096


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
def test_it_continues_wherever_the_network_stopped(seed: int) -> None:
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
    outgoing.heartbeat()
    assert drained(outgoing, 77) == encode_header(77, 0)
    assert not outgoing.is_in_frame


def test_without_anything_new_nothing_is_sent() -> None:
    assert OutgoingFrames(77, 100).buffers(77, view_at) == []
