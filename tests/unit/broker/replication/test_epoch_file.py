"""What a broker remembers of epochs."""

from pathlib import Path

import pytest

from roquet.broker.replication.epoch_file import FILE_NAME, EpochFile, Office
from roquet.broker.replication.epochs import EpochStart
from roquet.state_file import BadStateFile
from tests.support.quick_disk import QuickDisk


def remembered(root: Path) -> EpochFile:
    return EpochFile(QuickDisk(), root)


def test_a_new_store_has_a_name_of_its_own_and_no_epochs(tmp_path: Path) -> None:
    one, other = remembered(tmp_path / "one"), remembered(tmp_path / "other")
    assert one.author != other.author
    assert (one.seen, one.history.latest, one.office) == (0, 0, None)


def test_everything_survives(tmp_path: Path) -> None:
    epochs = remembered(tmp_path)
    epochs.begin(3, 100)
    epochs.appoint(Office(is_master=False, broker_id=2))
    epochs.see(9)
    again = remembered(tmp_path)
    assert again.author == epochs.author
    assert again.history.starts == (EpochStart(3, 100, epochs.author),)
    assert (again.seen, again.office) == (9, Office(is_master=False, broker_id=2))


def test_what_was_heard_of_is_not_forgotten_with_the_end_of_the_log(tmp_path: Path) -> None:
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
    with pytest.raises(BadStateFile, match="do not follow"):
        remembered(tmp_path)
