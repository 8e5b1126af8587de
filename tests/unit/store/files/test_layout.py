from pathlib import Path

import pytest

from roquet.store.files.layout import aside, file_name, is_directory_name, layout_of, start_of


def test_names_are_those_of_apache() -> None:
    layout = layout_of(Path("store"))
    assert layout.commit_log / file_name(1 << 30) == Path("store/commitlog/00000000001073741824")
    assert layout.queue("TopicA", 3) == Path("store/consumequeue/TopicA/3")
    assert (layout.index, layout.config) == (Path("store/index"), Path("store/config"))
    assert layout.checkpoint == Path("store/checkpoint")
    assert (layout.abort, layout.lock) == (Path("store/abort"), Path("store/lock"))


def test_the_commit_log_may_lie_elsewhere() -> None:
    assert layout_of(Path("store"), Path("fast/log")).commit_log == Path("fast/log")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("00000000001073741824", 1 << 30),
        ("0000000000107374182", None),
        ("000000000010737418240", None),
        ("-0000000001073741824", None),
        ("0000000000107374182x", None),
        ("0000000000107374182\u0664", None),
    ],
)
def test_only_twenty_digits_name_a_file(name: str, start: int | None) -> None:
    assert start_of(name) == start


def test_a_file_is_made_where_no_reader_of_the_directory_looks() -> None:
    assert aside(Path("store/commitlog")) == Path("store/commitlog.new")


@pytest.mark.parametrize(
    "topic", [b"TopicA", b"%RETRY%group", b"my.host-1", "größe".encode(), b"a" * 255]
)
def test_a_topic_may_become_a_directory(topic: bytes) -> None:
    assert is_directory_name(topic)


@pytest.mark.parametrize(
    "topic",
    [b"", b".", b"..", b"../x", b"a/b", b"a\\b", b"a\0b", b"a\nb", b"\xff", b"a" * 256],
)
def test_a_topic_that_could_leave_its_place_may_not(topic: bytes) -> None:
    assert not is_directory_name(topic)
