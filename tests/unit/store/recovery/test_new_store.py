import errno
from pathlib import Path
from random import Random

import pytest

from roquet.disk import SystemDisk
from roquet.store.config import FlushMode
from roquet.store.errors import StoreUnavailable
from roquet.store.files.layout import layout_of
from roquet.store.message_store import MessageStore
from roquet.store.recovery.new_store import NamesLater, is_new
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk, PowerCut
from tests.support.stores import bodies, crash, open_store, opened, small_config


class CountingDisk(SystemDisk):
    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync_directory(self, path: Path) -> None:
        self.synced.append(path)


def test_a_directory_is_synced_once_and_not_before_all_is_there(tmp_path: Path) -> None:
    disk = CountingDisk()
    names = NamesLater(disk)
    for path in (tmp_path, tmp_path / "a", tmp_path):
        names.sync_directory(path)
    assert disk.synced == []
    names.settle()
    assert disk.synced == [tmp_path, tmp_path / "a"]
    names.sync_directory(tmp_path)
    assert disk.synced == [tmp_path, tmp_path / "a", tmp_path]


def test_a_new_store_takes_one_sync_of_each_of_its_directories(tmp_path: Path) -> None:
    disk = CountingDisk()
    config = small_config(tmp_path / "store")
    crash(MessageStore.open(config, FakeClock(), disk))
    assert disk.synced == [tmp_path, config.root, config.layout.commit_log]


@pytest.mark.parametrize(
    ("name", "expected"), [("config", True), ("lock", False), ("commitlog", False)]
)
def test_what_holds_anything_but_state_is_not_new(
    tmp_path: Path, name: str, expected: bool
) -> None:
    layout = layout_of(tmp_path)
    assert is_new(SystemDisk(), layout)
    (tmp_path / name).mkdir()
    assert is_new(SystemDisk(), layout) == expected


def test_a_log_in_another_place_is_a_store(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    assert not is_new(SystemDisk(), layout_of(tmp_path / "store", tmp_path / "log"))


def test_no_name_is_lost_once_a_store_is_open(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    store = open_store(tmp_path / "store", disk=disk)
    assert disk.surviving_names() == set(tmp_path.rglob("*"))
    crash(store)


def test_a_store_whose_names_are_not_safe_is_not_opened(tmp_path: Path) -> None:
    class FailingDisk(SystemDisk):
        def sync_directory(self, path: Path) -> None:
            raise OSError(errno.EIO, str(path))

    with pytest.raises(StoreUnavailable):
        open_store(tmp_path / "store", disk=FailingDisk())


def test_whatever_a_power_cut_leaves_of_a_new_store_is_a_store(tmp_path: Path) -> None:
    chance = Random(14)
    step = 0
    is_whole = False
    while not is_whole:
        begun = tmp_path / f"begun{step}"
        begun.mkdir()
        disk = FaultyDisk(begun)
        disk.cut_after(step)
        try:
            crash(open_store(begun / "store", disk=disk))
            is_whole = True
        except PowerCut:
            pass
        for turn in range(3):
            left = tmp_path / f"left{step}-{turn}"
            left.mkdir()
            disk.cut_power(left, chance)
            with opened(left / "store", flush_mode=FlushMode.SYNC) as store:
                assert store.log_end == 0
                store.append(draft())
                store.flush()
                assert len(bodies(store)) == 1
        step += 1
    assert step > 10
