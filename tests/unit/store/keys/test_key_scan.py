"""Damage, and what is gone. That keys equal those of records one by one is in tests/property."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.commit_log import CommitLog
from roquet.store.keys.key_scan import scan_keys
from roquet.store.keys.message_keys import key_batch, keys_in_log
from tests.support.drafts import draft

FILE_SIZE = 1024


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(SystemDisk(), tmp_path, FILE_SIZE)
    log.resume()
    yield log
    log.close()


def append(log: CommitLog, count: int) -> list[int]:
    return [
        log.append(draft(properties={"UNIQ_KEY": f"u{n}", "KEYS": f"k{n}"}), 0, n)
        for n in range(count)
    ]


def test_no_record_has_no_keys(log: CommitLog) -> None:
    assert list(keys_in_log(log, [], with_tags=False)) == []


def test_records_of_several_files_come_in_their_order(log: CommitLog) -> None:
    offsets = append(log, 20)
    assert len(log.files) > 2
    expected = key_batch(log.scan(0, log.end), with_tags=False)
    assert list(keys_in_log(log, offsets, with_tags=False)) == list(expected)


def test_records_whose_file_is_gone_have_no_keys(log: CommitLog) -> None:
    offsets = append(log, 20)
    expected = key_batch(log.scan(log.files[1].start, log.end), with_tags=False)
    for file in log.forget(1):
        file.close()
    assert list(keys_in_log(log, offsets, with_tags=False)) == list(expected)


@pytest.mark.parametrize("bit", [0, 7])
def test_a_damaged_byte_costs_no_more_than_the_keys_of_its_record(log: CommitLog, bit: int) -> None:
    offsets = append(log, 3)
    before = list(keys_in_log(log, offsets, with_tags=False))
    unhurt = [each for each in before if each.physical_offset != offsets[1]]
    mapping = log.files[0].mapping
    for position in range(offsets[1], offsets[2]):
        mapping[position] ^= 1 << bit
        found = list(keys_in_log(log, offsets, with_tags=False))
        assert [each for each in found if each.physical_offset != offsets[1]] == unhurt
        mapping[position] ^= 1 << bit


def test_a_record_cut_off_anywhere_is_odd_and_has_no_keys(log: CommitLog) -> None:
    (offset,) = append(log, 1)
    content = log.files[0].mapping[: log.end]
    for end in range(offset, len(content)):
        assert scan_keys(content[:end], 0, [offset], True) == (b"", [offset])


@pytest.mark.parametrize("offset", [-1, 99, 2**62, -(2**62)])
def test_a_place_outside_of_the_file_is_odd(offset: int) -> None:
    assert scan_keys(bytes(99), 0, [offset], True) == (b"", [offset])


def test_the_mapping_can_be_closed_afterwards(log: CommitLog) -> None:
    offsets = append(log, 1)
    keys = keys_in_log(log, offsets, with_tags=True)
    log.close()
    assert len(keys) == 2
