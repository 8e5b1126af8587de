import json
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.state_file import BadStateFile, StateFile, StateNotSaved, sealed, unsealed
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
    assert unsealed((tmp_path / "topics.json.bak").read_bytes()) == b"{2}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (None, "missing or empty"),
        (b"", "missing or empty"),
        (b"garbage", "no brace"),
        (sealed(b"{3}").replace(b"3", b"2", 1), "its checksum is wrong"),
    ],
    ids=["missing", "empty", "garbage", "changed"],
)
def test_the_backup_stands_in_for_a_file_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes | None, reason: str
) -> None:
    path = tmp_path / "topics.json"
    saved(SystemDisk(), path, b"{1}", b"{2}")
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert StateFile(SystemDisk(), path).load(parse) == "{1}"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: {reason}; using topics.json.bak"
    ]


def test_the_first_state_has_a_second_copy(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    saved(SystemDisk(), path, b"{1}")
    path.write_bytes(b"garbage")
    assert StateFile(SystemDisk(), path).load(parse) == "{1}"


@pytest.mark.parametrize("content", [b"{}", b'{"a":1}'])
def test_a_state_is_json_with_one_more_member(content: bytes) -> None:
    text = sealed(content)
    members = json.loads(text)
    assert members.pop("crc32") == f"{crc32(content):08x}"
    assert members == json.loads(content)
    assert unsealed(text) == content


def test_what_apache_wrote_has_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"{1}")
    assert StateFile(SystemDisk(), path).load(parse) == "{1}"


def test_no_flipped_bit_is_taken_for_another_state(tmp_path: Path) -> None:
    content = b'{"offsetTable":{"topic@group":{0:7}}}'
    path = tmp_path / "offsets.json"
    saved(SystemDisk(), path, content, content)
    text = path.read_bytes()
    for bit in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        loaded = StateFile(SystemDisk(), path).load(lambda found: found)
        assert loaded is not None
        # What is left of the checksum's own member passes for an unknown one.
        assert loaded.startswith(content[:-1]), bytes(flipped)


def test_what_cannot_be_read_can_be_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"garbage")
    file = StateFile(SystemDisk(), path)
    with pytest.raises(BadStateFile):
        file.load(parse)
    file.set_aside()
    file.save(b"{1}")
    assert (tmp_path / "topics.json.damaged").read_bytes() == b"garbage"
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
