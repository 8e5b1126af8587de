from pathlib import Path
from random import Random

import pytest

from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.state_file import BadStateFile, StateFile, StateNotSaved
from tests.support.faulty_disk import FaultyDisk, PowerCut


class Unreadable(RoquetError):
    pass


def parse(content: bytes) -> str:
    if not content.startswith(b"{"):
        raise Unreadable("no brace")
    return content.decode()


def saved(disk: SystemDisk | FaultyDisk, path: Path, *states: bytes) -> StateFile:
    file = StateFile(disk, path)
    file.load(parse)
    for state in states:
        file.save(state)
    return file


def test_what_was_saved_last_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    saved(SystemDisk(), path, b"{1}", b"{2}")
    assert StateFile(SystemDisk(), path).load(parse) == "{2}"


def test_nothing_saved_is_no_error(tmp_path: Path) -> None:
    assert StateFile(SystemDisk(), tmp_path / "topics.json").load(parse) is None


def test_the_state_before_is_kept_as_backup(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    saved(SystemDisk(), path, b"{1}", b"{2}", b"{3}")
    assert (tmp_path / "topics.json.bak").read_bytes() == b"{2}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damage", [None, b"", b"garbage"], ids=["missing", "empty", "garbage"])
def test_the_backup_stands_in_for_a_file_that_cannot_be_read(
    tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "topics.json"
    saved(SystemDisk(), path, b"{1}", b"{2}")
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert StateFile(SystemDisk(), path).load(parse) == "{1}"


def test_unreadable_state_is_an_error_and_not_an_empty_state(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"garbage")
    with pytest.raises(BadStateFile, match="no brace") as caught:
        StateFile(SystemDisk(), path).load(parse)
    assert caught.value.path == path


def test_state_cannot_be_saved_before_it_was_loaded(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="before it was loaded"):
        StateFile(SystemDisk(), tmp_path / "topics.json").save(b"{}")


def test_a_left_over_from_a_crash_does_not_hinder_saving(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    (tmp_path / "topics.json.tmp").write_bytes(b"half")
    saved(SystemDisk(), path, b"{1}", b"{2}")
    assert StateFile(SystemDisk(), path).load(parse) == "{2}"


@pytest.mark.parametrize("fault", ["sync", "full"])
def test_a_failed_save_leaves_the_old_state(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "topics.json"
    disk = FaultyDisk(tmp_path)
    file = saved(disk, path, b"{1}")
    if fault == "sync":
        disk.fail_next_sync()
    else:
        disk.is_full = True
    with pytest.raises(StateNotSaved):
        file.save(b"{2}")
    assert StateFile(SystemDisk(), path).load(parse) == "{1}"


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_at_any_point_leaves_the_old_or_the_new_state(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    disk = FaultyDisk(before)
    file = saved(disk, before / "config" / "offsets.json", b"{1}", b"{2}" * 3000)
    disk.cut_after(chance.randint(0, 10))
    try:
        file.save(b"{3}" * 3000)
        allowed = {"{3}" * 3000}
    except PowerCut:
        allowed = {"{2}" * 3000, "{3}" * 3000}
    disk.cut_power(after, chance)
    assert StateFile(SystemDisk(), after / "config" / "offsets.json").load(parse) in allowed
