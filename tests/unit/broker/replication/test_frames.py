"""Frames and reports, however the network cuts them."""

import pytest

from roquet.broker.replication.errors import BadLogFrame, Outdated
from roquet.broker.replication.frames import (
    FrameReader,
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
