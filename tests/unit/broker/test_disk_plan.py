"""What brokers will take of their disk, and when that is too much."""

from pathlib import Path

import pytest

from roquet.broker.disk_plan import check_room, plan_of, size_text, use_text
from roquet.broker.errors import NoRoomForStore
from roquet.disk import Space, SystemDisk
from roquet.store.config import StoreConfig
from tests.support.drafts import draft
from tests.support.stores import opened, small_config

GB = 1 << 30


class SizedDisk(SystemDisk):
    def __init__(self, used: int, usable: int) -> None:
        self._space = Space(used, usable)

    def space(self, path: Path) -> Space:
        assert path.exists()
        return self._space


def test_a_new_log_takes_its_first_file_at_once(tmp_path: Path) -> None:
    plan = plan_of([StoreConfig(root=tmp_path / "not" / "there")], SizedDisk(50 * GB, 50 * GB))
    assert (plan.needed_size, plan.size_left) == (GB, 40 * GB)
    assert plan.directory == tmp_path
    check_room(plan)
    assert use_text(plan) == (
        "the log grows by files of 1.0 GB, the next one made when one is half full; the first one"
        " takes 1.0 GB now. Messages are kept for 72 hours; 40.0 GB can be taken on the disk of"
        f" {tmp_path} before senders are refused, at 90 percent"
    )


def test_a_new_store_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    plan = plan_of([StoreConfig(root=tmp_path)], SizedDisk(9 * GB, GB))
    with pytest.raises(NoRoomForStore) as caught:
        check_room(plan)
    assert str(caught.value) == (
        f"there is no room for a new store on the disk of {tmp_path}: the first one takes 1.0 GB,"
        " and 0 bytes can be taken before 90 percent of the disk is in use"
        " (diskSpaceWarningLevelRatio); make room, name another directory (--dir), or set a smaller"
        " mappedFileSizeCommitLog"
    )


def test_brokers_of_one_disk_need_room_for_all_of_them(tmp_path: Path) -> None:
    stores = [StoreConfig(root=tmp_path / name) for name in ("a", "b", "c")]
    assert "each of 3 logs grows" in use_text(plan_of(stores, SizedDisk(0, 100 * GB)))
    check_room(plan_of(stores[:2], SizedDisk(0, 3 * GB)))
    with pytest.raises(NoRoomForStore, match=r"the first 3 take 3\.0 GB, and 2\.7 GB can be"):
        check_room(plan_of(stores, SizedDisk(0, 3 * GB)))


def test_messages_that_are_there_can_be_read_from_a_full_disk(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft())
    plan = plan_of([small_config(tmp_path)], SizedDisk(100 * GB, 0))
    check_room(plan)
    assert "what was there is used" in use_text(plan)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KB"), (16 << 20, "16.0 MB"), (GB, "1.0 GB")],
)
def test_sizes_are_reported_in_their_unit(size: int, text: str) -> None:
    assert size_text(size) == text
