"""Counts between bounds."""

from math import inf

from roquet.histogram import SECONDS, Histogram


def test_a_value_belongs_to_the_bounds_that_are_not_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.add(value)
    assert list(histogram.cumulated()) == [(1.0, 2), (2.0, 3), (inf, 4)]
    assert (histogram.count, histogram.total) == (4, 6.0)


def test_bounds_for_times_rise() -> None:
    assert list(SECONDS) == sorted(set(SECONDS))
