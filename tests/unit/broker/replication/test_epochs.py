"""Up to where two logs are the same, by who wrote what."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from roquet.broker.replication.epochs import (
    FILE_NAME,
    AssignedRole,
    Displacement,
    Epoch,
    EpochFile,
    EpochHistory,
    EpochStart,
    common_end,
    is_history,
)
from roquet.state_file import BadStateFile
from tests.support.quick_disk import QuickDisk


def history(*entries: tuple[int, int, str]) -> EpochHistory:
    return EpochHistory(tuple(EpochStart(*entry) for entry in entries))


def test_a_byte_is_of_the_last_epoch_that_started_before_it() -> None:
    both = history((3, 100, "a"), (7, 200, "b"))
    assert [both.at(end).number for end in (0, 100, 101, 200, 201)] == [0, 0, 3, 3, 7]
    assert both.at(201) == Epoch(7, "b")


def test_an_epoch_that_left_nothing_is_forgotten_when_another_starts_there() -> None:
    assert history((3, 100, "a")).with_epoch(4, 100, "b") == history((4, 100, "b"))


def test_a_log_that_is_cut_forgets_the_epochs_behind_it() -> None:
    assert history((3, 100, "a"), (7, 200, "b")).before(200) == history((3, 100, "a"))


COMMON = [
    ("one copies the other", history((1, 0, "a")), 500, history((1, 0, "a")), 300, 300),
    (
        "the old master has an end that its successor never had",
        *(history((1, 0, "a"), (2, 300, "b")), 400, history((1, 0, "a")), 350),
        300,
    ),
    (
        "the successor has written less than the old master lost",
        *(history((1, 0, "a"), (2, 300, "b")), 310, history((1, 0, "a")), 900),
        300,
    ),
    (
        "two masters of the same number",
        *(history((1, 0, "a"), (2, 300, "b")), 400, history((1, 0, "a"), (2, 320, "a")), 400),
        300,
    ),
    (
        "two switches in a row, and one that saw only the first",
        *(history((1, 0, "a"), (2, 300, "b"), (3, 400, "c")), 450),
        *(history((1, 0, "a"), (2, 300, "b")), 420),
        400,
    ),
    ("neither has ever heard of epochs", history(), 500, history(), 400, 400),
    ("nothing", history((1, 0, "a")), 500, history((2, 0, "b")), 400, 0),
]


@pytest.mark.parametrize(
    ("one", "end", "other", "other_end", "expected"),
    [case[1:] for case in COMMON],
    ids=[case[0] for case in COMMON],
)
def test_two_logs_have_in_common_what_the_same_master_wrote(
    one: EpochHistory, end: int, other: EpochHistory, other_end: int, expected: int
) -> None:
    assert common_end(one, end, other, other_end) == expected
    assert common_end(other, other_end, one, end) == expected


@pytest.mark.parametrize(
    "starts",
    [
        (EpochStart(0, 5),),
        (EpochStart(2, -1),),
        (EpochStart(2, 5), EpochStart(2, 9)),
        (EpochStart(2, 5), EpochStart(3, 5)),
    ],
)
def test_epochs_that_do_not_follow_one_another_are_no_history(
    starts: tuple[EpochStart, ...],
) -> None:
    assert not is_history(starts)


@st.composite
def forks(draw: st.DrawFn) -> tuple[list[tuple[int, str]], list[tuple[int, str]], int]:
    """Two logs, byte by byte who wrote it, that have a beginning in common."""
    epochs = iter(range(1, 100))
    lengths = st.lists(st.integers(1, 5), max_size=4)

    def written(author: str) -> list[tuple[int, str]]:
        parts = [(next(epochs), length) for length in draw(lengths)]
        return [(epoch, author) for epoch, length in parts for _ in range(length)]

    common = written("both")
    return common + written("one"), common + written("other"), len(common)


def history_of(log: list[tuple[int, str]]) -> EpochHistory:
    starts = [0, *(i for i, (before, after) in enumerate(pairwise(log), 1) if before != after)]
    return EpochHistory(tuple(EpochStart(log[i][0], i, log[i][1]) for i in starts if i < len(log)))


@given(forks())
def test_what_is_in_common_is_found_wherever_two_logs_part(
    logs: tuple[list[tuple[int, str]], list[tuple[int, str]], int],
) -> None:
    one, other, end = logs
    assert is_history(history_of(one).starts)
    assert common_end(history_of(one), len(one), history_of(other), len(other)) == end


def remembered(root: Path) -> EpochFile:
    return EpochFile(QuickDisk(), root)


def test_a_new_store_has_a_name_of_its_own_and_no_epochs(tmp_path: Path) -> None:
    one, other = remembered(tmp_path / "one"), remembered(tmp_path / "other")
    assert one.author != other.author
    assert (one.seen, one.history.latest, one.assigned_role) == (0, 0, None)


def test_everything_survives(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    epochs.begin(3, 100)
    epochs.assign(AssignedRole(is_master=False, broker_id=2))
    epochs.see(9)
    again = remembered(tmp_path)
    assert again.author == epochs.author
    assert again.history.starts == (EpochStart(3, 100, epochs.author),)
    assert (again.seen, again.assigned_role) == (9, AssignedRole(is_master=False, broker_id=2))


def test_what_was_seen_is_not_forgotten_with_the_end_of_the_log(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    epochs.begin(3, 100)
    epochs.cut(100)
    assert (epochs.history.latest, epochs.seen) == (0, 3)
    assert remembered(tmp_path).seen == 3


def test_a_slave_has_the_epochs_of_its_master(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    epochs.follow(7, (EpochStart(3, 0, "a"), EpochStart(7, 50, "b")))
    assert epochs.history.at(51).number == epochs.seen == 7


def test_a_file_that_cannot_be_right_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"author":"a","starts":[[2,5],[1,9]]}')
    with pytest.raises(BadStateFile, match="ascending"):
        remembered(tmp_path)


def test_a_master_that_follows_another_one_remembers_which_displaced_it(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    epochs.begin(3, 100)
    epochs.note_followed(3, "10.0.0.2:10911", 5_000)
    assert epochs.displaced is None
    # All that it wrote may be cut off before it follows.
    epochs.cut(100)
    epochs.follow(4, (EpochStart(4, 100, "b"),))
    epochs.note_followed(4, "10.0.0.2:10911", 6_000)
    epochs.note_followed(5, "10.0.0.3:10911", 7_000)
    expected = Displacement(3, "10.0.0.2:10911", 4, 6_000)
    assert remembered(tmp_path).displaced == expected
    epochs.begin(6, 200)
    assert remembered(tmp_path).displaced is None


def test_a_broker_that_only_followed_was_not_displaced(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    for epoch in (4, 5):
        epochs.follow(epoch, (EpochStart(4, 0, "b"),))
        epochs.note_followed(epoch, "10.0.0.2:10911", 6_000)
    assert epochs.displaced is None


def test_a_master_of_an_earlier_version_can_be_displaced(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"author":"a","starts":[[2,5,"a"]]}')
    epochs = remembered(tmp_path)
    assert epochs.led == 2
    epochs.note_followed(4, "10.0.0.2:10911", 6_000)
    assert epochs.displaced == Displacement(2, "10.0.0.2:10911", 4, 6_000)
