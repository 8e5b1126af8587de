"""Cutting frames from a stream, and the limits on what is cut."""

import itertools

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.errors import BadFrame, TooLarge
from roquet.protocol.frame import (
    FRAME_SIZE_MAX,
    SERIALIZER_BINARY,
    SERIALIZER_JSON,
    Frame,
    encode_frame,
)
from roquet.protocol.frame_decoder import FrameDecoder

raw_frames = st.builds(
    Frame,
    st.sampled_from([SERIALIZER_JSON, SERIALIZER_BINARY]),
    st.binary(max_size=60),
    st.binary(max_size=60),
)


def decode_in_pieces(stream: bytes, cuts: list[int]) -> list[Frame]:
    decoder = FrameDecoder()
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    frames: list[Frame] = []
    for start, end in itertools.pairwise(edges):
        frames += decoder.cut(stream[start:end])
    assert decoder.pending_size == 0
    return frames


@given(frames=st.lists(raw_frames, max_size=8), cuts=st.lists(st.integers(0, 2000)))
@pytest.mark.slow
def test_frames_do_not_depend_on_how_the_network_cut_the_stream(
    frames: list[Frame], cuts: list[int]
) -> None:
    stream = b"".join(encode_frame(*frame) for frame in frames)
    assert decode_in_pieces(stream, cuts) == frames


def test_a_frame_may_come_one_byte_at_a_time() -> None:
    stream = encode_frame(SERIALIZER_JSON, b"{}", b"body") * 2
    assert (
        decode_in_pieces(stream, list(range(len(stream))))
        == [Frame(SERIALIZER_JSON, b"{}", b"body")] * 2
    )


def test_whole_frames_are_cut_as_they_are_asked_for_and_some_can_be_passed_over() -> None:
    frames = FrameDecoder().whole(
        b"".join(encode_frame(SERIALIZER_JSON, b"{}", b"%d" % each) for each in range(4))
    )
    assert frames.end == len(frames.data)
    assert next(frames).body == b"0"
    frames.position += frames.end // 4
    assert [frame.body for frame in frames] == [b"2", b"3"]
    assert frames.position == frames.end


def test_an_unfinished_frame_is_kept_and_counted() -> None:
    decoder = FrameDecoder()
    whole = encode_frame(SERIALIZER_JSON, b"{}", b"0123456789")
    assert len(decoder.cut(whole + whole[:11])) == 1
    assert decoder.pending_size == 11


def test_a_large_frame_in_small_pieces_is_joined_once_and_not_per_piece() -> None:
    # One mebibyte in pieces of 16 bytes: quadratic joining would copy 32 GiB and never end.
    body = bytes(1 << 20)
    stream = encode_frame(SERIALIZER_JSON, b"{}", body)
    decoder = FrameDecoder()
    frames = [f for i in range(0, len(stream), 16) for f in decoder.cut(stream[i : i + 16])]
    assert [frame.body for frame in frames] == [body]


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        ("ffffffff00000000", BadFrame),  # negative length
        ("0000000300000000", BadFrame),  # no room for the header size
        ("0000000600000003", BadFrame),  # the header is longer than the frame
        ("0000000602000001", BadFrame),  # an unknown serializer
        ("00fffffd00000000", TooLarge),  # one byte over 16 MiB
        ("7fffffff00000000", TooLarge),
    ],
)
def test_an_impossible_prefix_is_refused_before_anything_is_buffered(
    stream: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        FrameDecoder().cut(bytes.fromhex(stream))


def test_whole_frames_before_a_bad_one_are_handed_out_first() -> None:
    decoder = FrameDecoder()
    good = encode_frame(SERIALIZER_JSON, b"{}", b"body")
    assert decoder.cut(good + bytes.fromhex("ffffffff00000000")) == [Frame(0, b"{}", b"body")]
    assert decoder.pending_size == 8
    with pytest.raises(BadFrame):
        decoder.cut(b"")


def test_the_largest_frame_is_accepted_and_the_limit_is_ours_to_set() -> None:
    assert FrameDecoder().cut(bytes.fromhex("00fffffc00000000")) == []
    assert FRAME_SIZE_MAX == 0xFFFFFC + 4
    with pytest.raises(TooLarge):
        FrameDecoder(frame_size_max=100).cut(encode_frame(SERIALIZER_JSON, b"{}", bytes(91)))
    with pytest.raises(TooLarge):
        FrameDecoder(header_size_max=10).cut(encode_frame(SERIALIZER_JSON, bytes(11)))
