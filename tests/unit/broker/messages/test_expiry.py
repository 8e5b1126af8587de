"""What the log of a broker says when the store was cleaned."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from roquet.broker.messages.expiry import Expiry
from roquet.disk import Space
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import few_descriptors_left
from tests.support.stores import opened, small_config

HOUR_S = 3600


class Bed:
    def __init__(self, expiry: Expiry, store: MessageStore, disk: FaultyDisk) -> None:
        self.expiry = expiry
        self.store = store
        self.disk = disk

    def clean_at(self, used_percent: int) -> None:
        self.disk.free_space = Space(used_percent, 100 - used_percent)
        self.expiry.clean()


@contextmanager
def bed(root: Path, clock: FakeClock, **settings: Any) -> Iterator[Bed]:
    disk = FaultyDisk(root)
    config = small_config(root, delete_hours=(), **settings)
    with opened(root, disk=disk, clock=clock, delete_hours=(), **settings) as store:
        yield Bed(Expiry(store, clock, lambda: config), store, disk)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(autouse=True)
def everything_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(each.levelno, each.getMessage()) for each in caplog.records]
    caplog.clear()
    return found


def test_each_limit_that_is_passed_is_reported_once_with_what_comes_next(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    place = f"percent of the disk of {tmp_path}/commitlog is in use"
    with bed(tmp_path, clock) as here:
        here.clean_at(75)
        assert logged(caplog) == []
        here.clean_at(76)
        here.clean_at(80)
        assert logged(caplog) == [
            (
                logging.WARNING,
                (
                    f"76 {place}: files older than 72 hours go now; above 90 percent no message is"
                    " taken, and nothing younger is deleted (cleanFileForciblyEnable=false)"
                ),
            )
        ]
        here.clean_at(86)
        assert logged(caplog) == [
            (
                logging.WARNING,
                (
                    f"86 {place}: above 90 percent no message is taken; make room, or lower"
                    " fileReservedTime"
                ),
            )
        ]
        here.clean_at(91)
        here.clean_at(91)
        full = (
            logging.ERROR,
            f"no message is taken: 91 {place}; senders are refused until it is 88 percent or less",
        )
        assert logged(caplog) == [full]
        clock.advance(600)
        here.clean_at(91)
        assert logged(caplog) == [full]
        here.clean_at(50)
        assert logged(caplog) == [(logging.INFO, f"50 {place}: there is room again")]


def test_forced_deletion_of_files_is_logged_at_the_start(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with bed(tmp_path, clock, clean_by_force=True) as here:
        here.clean_at(76)
        ((level, text),) = logged(caplog)
        assert level == logging.WARNING
        assert "above 85 percent the oldest messages are deleted whatever their age" in text


def test_what_goes_by_force_is_reported_with_reason_and_count(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with bed(tmp_path, clock, clean_by_force=True) as here:
        for _ in range(40):
            here.store.append(draft(bytes(300)))
        here.clean_at(86)
        gone = here.store.min_offset("TopicA", 0)
        assert 0 < gone < 40
        (level, text), _ = logged(caplog)
        assert level == logging.WARNING
        assert text.startswith(
            f"deleted {gone} messages in 4 files of the log, 4 of them younger than 72 hours, "
            "because 86 percent of the disk is in use and cleanFileForciblyEnable=true; "
        )


def test_what_goes_by_age_is_reported_with_its_count(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with bed(tmp_path, clock) as here:
        for _ in range(40):
            here.store.append(draft(bytes(300)))
        clock.advance(73 * HOUR_S)
        here.expiry.clean(is_requested=True)
        gone = here.store.min_offset("TopicA", 0)
        ((level, text),) = logged(caplog)
        assert level == logging.INFO
        assert text.startswith(
            f"deleted {gone} messages in 4 files of the log, all older than 72 hours; "
        )


def test_a_postponed_removal_is_logged_once(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with bed(tmp_path, clock) as here:
        for _ in range(40):
            here.store.append(draft(bytes(300)))
    clock.advance(73 * HOUR_S)
    with bed(tmp_path, clock) as here, few_descriptors_left(0):
        caplog.clear()
        here.expiry.clean(is_requested=True)
        here.expiry.clean(is_requested=True)
    ((level, text),) = logged(caplog)
    assert level == logging.WARNING
    assert text.startswith("removal of old files is postponed, retrying: [Errno 24]")
