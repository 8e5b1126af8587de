from pathlib import Path

from roquet.store.maintenance.scrubber import ScrubReport
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.inner_parts import log_of, queues_of
from tests.support.recording_listener import RecordingListener
from tests.support.stores import bodies, open_store, opened

COUNT = 150
SIZE = draft(b"000").size


def fill(store: MessageStore) -> list[int]:
    return [store.append(draft(b"%03d" % number)).physical_offset for number in range(COUNT)]


def scrub(store: MessageStore, size_max: int = 1 << 20) -> ScrubReport:
    """One whole round, as one report."""
    damages, repaired = [], 0
    while True:
        report = store.scrub(size_max)
        damages += report.damages
        repaired += report.repaired_entries
        if report.is_round_over:
            return ScrubReport(damages, repaired, is_round_over=True)


def damage(store: MessageStore, physical_offset: int) -> None:
    file = log_of(store).file_at(physical_offset)
    assert file is not None
    file.mapping[physical_offset - file.start] ^= 1


def test_a_good_store_is_found_good_in_steps_of_any_size(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        for size_max in (1, 500, 1 << 20):
            report = scrub(store, size_max)
            assert (report.damages, report.repaired_entries) == ([], 0)


def test_damage_to_any_record_is_found_in_steps_of_any_size(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        offsets = fill(store)
        for physical_offset in offsets:
            damage(store, physical_offset + 90)
        for size_max in (1, 500, 1 << 20):
            found = scrub(store, size_max).damages
            assert all(any(each.start <= at < each.end for each in found) for at in offsets)


def test_damage_is_reported_with_its_range(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        offsets = fill(store)
        damage(store, offsets[5] + 90)
        damage(store, offsets[100] + 90)
        damage(store, offsets[101] + 90)
        report = scrub(store, 700)
        assert [(each.start, each.end) for each in report.damages] == [
            (offsets[5], offsets[6]),
            (offsets[100], offsets[102]),
        ]
        assert all("checksum" in each.reason for each in report.damages)


def test_damage_at_the_end_of_a_file_ends_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        offsets = fill(store)
        last = max(offset for offset in offsets if offset < 4096)
        damage(store, last + 90)
        (found,) = scrub(store).damages
        assert (found.start, found.end) == (last, 4096)


def test_a_damaged_message_is_no_longer_handed_out_once_it_was_found(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        offsets = fill(store)
        damage(store, offsets[5] + 90)
        scrub(store)
        assert bodies(store) == [b"%03d" % number for number in range(COUNT) if number != 5]


def test_a_file_without_damage_counts_as_verified(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.close()
    with opened(tmp_path) as store:
        first, *_ = log_of(store).files
        assert not first.is_verified
        scrub(store, 300)
        assert first.is_verified


def test_wrong_entries_are_put_right(tmp_path: Path) -> None:
    listener = RecordingListener()
    with opened(tmp_path, listener=listener) as store:
        fill(store)
        queue = queues_of(store).find(b"TopicA", 0)
        assert queue is not None
        entry = queue.entry(7)
        assert entry is not None
        for wrong in (
            entry._replace(physical_offset=1),
            entry._replace(size=1),
            entry._replace(tags_code=1),
            queue.entry(8),
        ):
            assert wrong is not None
            queue.replace(7, wrong)
            assert scrub(store).repaired_entries == 1
            assert queue.entry(7) == entry
        assert listener.damages == []


def test_messages_of_a_deleted_topic_do_not_take_the_place_of_new_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.delete_topic("TopicA")
        store.append(draft(b"new"))
        assert scrub(store).repaired_entries == 0
        assert bodies(store) == [b"new"]


def test_an_empty_store_has_nothing_to_scrub(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.scrub(100) == ([], 0, True)
