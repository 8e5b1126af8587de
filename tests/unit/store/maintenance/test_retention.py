import pytest

from roquet.store.maintenance.cleaning import (
    Alarm,
    FilesToForget,
    Pressure,
    SpaceLimits,
    alarm_of,
    files_to_forget,
    is_full,
    pressure_of,
)

LIMITS = SpaceLimits(clean_old=75, clean_any=85, full=90)
HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


@pytest.mark.parametrize(
    ("used", "by_force", "pressure"),
    [
        (0, True, Pressure.NONE),
        (75, True, Pressure.NONE),
        (76, True, Pressure.OLD_FILES),
        (85, True, Pressure.OLD_FILES),
        (86, True, Pressure.ANY_FILES),
        (100, True, Pressure.ANY_FILES),
        (100, False, Pressure.OLD_FILES),
    ],
)
def test_a_filling_disk_builds_up_pressure(used: int, by_force: bool, pressure: Pressure) -> None:
    assert pressure_of(used, LIMITS, clean_by_force=by_force) is pressure


@pytest.mark.parametrize(
    ("used", "was_full", "full"),
    [(90, False, False), (91, False, True), (91, True, True), (89, True, True), (88, True, False)],
)
def test_a_disk_is_not_full_and_empty_by_turns(used: int, was_full: bool, full: bool) -> None:
    assert is_full(used, LIMITS, was_full=was_full) == full


@pytest.mark.parametrize(
    ("used", "alarm"),
    [(75, Alarm.NONE), (76, Alarm.FILLING), (86, Alarm.NEARLY_FULL), (91, Alarm.NEARLY_FULL)],
)
def test_each_limit_that_is_passed_is_another_alarm(used: int, alarm: Alarm) -> None:
    assert alarm_of(used, LIMITS, is_disk_full=False) is alarm
    assert alarm_of(used, LIMITS, is_disk_full=True) is Alarm.FULL


def to_forget(
    ages_h: list[int], pressure: Pressure = Pressure.NONE, *, is_hour: bool = True
) -> FilesToForget:
    timestamps = [NOW_MS - age * HOUR_MS for age in ages_h]
    return files_to_forget(
        timestamps, NOW_MS, reserved_hours=72, pressure=pressure, is_hour=is_hour
    )


def count(ages_h: list[int], pressure: Pressure = Pressure.NONE, *, is_hour: bool = True) -> int:
    return to_forget(ages_h, pressure, is_hour=is_hour).file_count


def test_old_files_go_at_their_hour() -> None:
    assert count([100, 80, 72, 71, 3]) == 3
    assert count([100, 80], is_hour=False) == 0
    assert count([]) == 0


def test_old_files_go_at_any_hour_when_the_disk_fills_up() -> None:
    assert to_forget([100, 80, 3], Pressure.OLD_FILES, is_hour=False) == (2, 0)


def test_all_files_go_when_there_is_no_other_way() -> None:
    assert to_forget([100, 80, 3], Pressure.ANY_FILES, is_hour=False) == (3, 1)


def test_a_younger_file_keeps_older_ones_behind_it() -> None:
    assert count([100, 3, 100]) == 1


def test_only_so_many_files_go_at_once() -> None:
    assert count([100] * 30) == 10
