from pathlib import Path

import pytest

from roquet.disk import Disk, SystemDisk
from roquet.store.checkpoint import Checkpoint, CheckpointFile, load_checkpoint
from tests.support.faulty_disk import FaultyDisk


def save_checkpoint(disk: Disk, path: Path, value: Checkpoint) -> None:
    file = CheckpointFile(disk, path)
    file.load()
    file.save(value)
    file.close()


def test_a_checkpoint_is_three_big_endian_numbers_in_4096_bytes(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    save_checkpoint(SystemDisk(), path, Checkpoint(1, 2, 3))
    assert path.read_bytes() == (
        (1).to_bytes(8) + (2).to_bytes(8) + (3).to_bytes(8) + bytes(4096 - 24)
    )
    assert load_checkpoint(SystemDisk(), path) == Checkpoint(1, 2, 3)


def test_what_another_version_keeps_in_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(24) + b"\x07" * (4096 - 24))
    save_checkpoint(SystemDisk(), path, Checkpoint(1, 2, 3))
    assert path.read_bytes()[24:] == b"\x07" * (4096 - 24)


@pytest.mark.parametrize("content", [None, b"", b"\1\2\3"], ids=["missing", "empty", "short"])
def test_without_a_checkpoint_nothing_is_known(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    assert load_checkpoint(SystemDisk(), path) == Checkpoint(0, 0, 0)


@pytest.mark.parametrize(
    ("log", "queue", "timestamp"),
    [(10_000, 20_000, 7_000), (20_000, 10_000, 7_000), (10_000, 0, 0), (2_000, 2_000, 0)],
)
def test_recovery_starts_where_log_and_queues_are_both_complete(
    log: int, queue: int, timestamp: int
) -> None:
    assert Checkpoint(log, queue, 5).recovery_timestamp == timestamp


def test_a_saved_checkpoint_is_safe(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    save_checkpoint(disk, tmp_path / "checkpoint", Checkpoint(1, 2, 3))
    assert disk.unsynced() == []
    save_checkpoint(disk, tmp_path / "checkpoint", Checkpoint(4, 5, 6, 7))
    assert disk.unsynced() == []


def test_how_far_the_log_is_synced_is_noted_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file = CheckpointFile(SystemDisk(), path)
    file.note_durable(4000)
    assert load_checkpoint(SystemDisk(), path) == Checkpoint(0, 0, 0, 4000)
    file.save(Checkpoint(1, 2, 3, 5000))
    file.note_durable(6000)
    assert load_checkpoint(SystemDisk(), path) == Checkpoint(1, 2, 3, 6000)
    assert path.stat().st_size == 4096
    file.close()


@pytest.mark.parametrize("position", [0, 488, 500, 511])
def test_what_was_noted_before_another_owner_came_or_is_damaged_counts_for_nothing(
    tmp_path: Path, position: int
) -> None:
    path = tmp_path / "checkpoint"
    save_checkpoint(SystemDisk(), path, Checkpoint(1, 2, 3, 4000))
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert load_checkpoint(SystemDisk(), path).durable_end == 0
