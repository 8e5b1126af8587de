"""A day of measurements: bounded, finer the newer it is."""

from datetime import UTC, datetime, timedelta

from roquet.dashboard.history import (
    SERIES_COUNT_MAX,
    Fold,
    History,
    Point,
    SeriesKey,
    full_at,
)

KEY = SeriesKey("group", "g", "lag")
DAY_S = 86400


def of_a_day(fold: Fold, step_s: int = 5) -> tuple[History, int]:
    history, end_s = History(), 20 * DAY_S
    for time_s in range(end_s - DAY_S * 3 // 2, end_s, step_s):
        history.add(KEY, time_s, time_s % 600, fold)
    return history, end_s


def test_a_day_of_polls_is_a_few_hundred_points_in_order() -> None:
    history, end_s = of_a_day(Fold.MAX)
    points = history.points(KEY, 0)
    assert 300 < len(points) < 450
    assert points == sorted(points)
    assert end_s - DAY_S <= points[0].time_s <= end_s - DAY_S + 600


def test_what_is_old_is_the_worst_or_the_mean() -> None:
    assert of_a_day(Fold.MAX)[0].points(KEY, 0)[1].value == 595
    assert round(of_a_day(Fold.MEAN)[0].points(KEY, 0)[1].value, 1) == 297.5


def test_a_coarse_point_never_stands_before_the_points_it_was_made_of() -> None:
    history = History()
    for time_s in (7190, 7195, 7205):
        history.add(KEY, time_s, 1.0)
    assert [each.time_s for each in history.points(KEY, 0)] == [7190, 7195, 7205]


def test_what_is_unknown_leaves_a_gap() -> None:
    history = History()
    history.add(KEY, 1.0, None)
    assert history.points(KEY, 0) == []


def test_only_so_many_series_are_kept_and_the_stalest_goes() -> None:
    history = History()
    history.add(KEY, 1.0, 1.0)
    for index in range(SERIES_COUNT_MAX):
        history.add(SeriesKey("topic", str(index), "rate"), 2.0, 1.0)
    assert len(history) == SERIES_COUNT_MAX
    assert history.points(KEY, 0) == []


def test_a_disk_that_grows_is_full_where_its_line_meets_the_limit() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    points = [Point(start.timestamp() + hour * 3600, 0.5 + hour * 0.01) for hour in range(11)]
    found = full_at(points, 0.9)
    assert found is not None
    assert abs(found - (start + timedelta(hours=40))) < timedelta(seconds=1)


def test_a_disk_that_does_not_grow_or_is_new_is_never_full() -> None:
    assert full_at([Point(0, 0.5), Point(7200, 0.5)]) is None
    assert full_at([Point(0, 0.5), Point(7200, 0.4)]) is None
    assert full_at([Point(0, 0.5), Point(60, 0.6)]) is None
