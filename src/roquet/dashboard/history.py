"""A day of measurements in memory: each series keeps recent points and averages of older ones.

    the last 10 minutes     each point
    the last 2 hours        one a minute
    the last 24 hours       one in ten minutes

So a series has some 400 points at most, whatever the pace of polls.
"""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple, final

# More series than of a thousand topics and a thousand groups are not kept.
SERIES_COUNT_MAX: Final = 4000
_TIERS: Final = ((600.0, 0.0), (7200.0, 60.0), (86400.0, 600.0))
# Of points that come faster than any poll.
_POINT_COUNT_MAX: Final = 1024
# A trend of less time, or of less growth, does not predict the day a disk will be full.
_TREND_S_MIN: Final = 1800.0
_YEARS_MAX: Final = timedelta(days=3650)


class SeriesKey(NamedTuple):
    """`kind` is "cluster", "broker", "topic" or "group"; `name` which one; `what` is measured."""

    kind: str
    name: str
    what: str


class Point(NamedTuple):
    time_s: float
    value: float


class Fold(Enum):
    """What stands for the points of a longer time: their mean, or the worst of them."""

    MEAN = "mean"
    MAX = "max"


@final
class _Tier:
    """Points of one distance, no older than `span_s`."""

    def __init__(self, span_s: float, step_s: float, fold: Fold) -> None:
        self._span_s = span_s
        self.step_s = step_s
        self._fold = fold
        self.points: deque[Point] = deque(maxlen=_POINT_COUNT_MAX)
        self._count = 0

    def add(self, time_s: float, value: float) -> None:
        start_s = time_s - time_s % self.step_s if self.step_s else time_s
        last = self.points[-1] if self.points else None
        if last is not None and last.time_s == start_s:
            self._count += 1
            self.points[-1] = Point(start_s, self._folded(last.value, value))
        else:
            self._count = 1
            self.points.append(Point(start_s, value))
        while self.points[0].time_s < time_s - self._span_s:
            self.points.popleft()

    def _folded(self, before: float, value: float) -> float:
        if self._fold is Fold.MAX:
            return max(before, value)
        return before + (value - before) / self._count


@final
class _Series:
    def __init__(self, fold: Fold) -> None:
        self._tiers = [_Tier(*each, fold) for each in _TIERS]

    def add(self, time_s: float, value: float) -> None:
        for tier in self._tiers:
            tier.add(time_s, value)

    def points(self, since_s: float) -> list[Point]:
        """Each time from the finest tier that has it."""
        found: list[Point] = []
        before_s = float("inf")
        for tier in self._tiers:
            # A mean that finer points are part of would stand before them.
            last_s = before_s - tier.step_s
            part = [each for each in tier.points if since_s <= each.time_s <= last_s]
            found = part + found
            if tier.points:
                before_s = min(before_s, tier.points[0].time_s)
        return found


@final
class History:
    """Series by key. When there are too many, the one that was not added to for longest goes."""

    def __init__(self) -> None:
        self._series: dict[SeriesKey, _Series] = {}

    def add(
        self, key: SeriesKey, time_s: float, value: float | None, fold: Fold = Fold.MEAN
    ) -> None:
        """What is unknown leaves a gap."""
        if value is None:
            return
        # At the end: the order of the dict is that of the last additions.
        series = self._series.pop(key, None) or _Series(fold)
        self._series[key] = series
        series.add(time_s, value)
        if len(self._series) > SERIES_COUNT_MAX:
            del self._series[next(iter(self._series))]

    def points(self, key: SeriesKey, since_s: float) -> list[Point]:
        series = self._series.get(key)
        return [] if series is None else series.points(since_s)

    def __len__(self) -> int:
        return len(self._series)


def full_at(points: Iterable[Point], limit: float = 1.0) -> datetime | None:
    """When a growing value reaches `limit`, by the line through its points; None if never."""
    known = list(points)
    if len(known) < 2 or known[-1].time_s - known[0].time_s < _TREND_S_MIN:
        return None
    mean_time = sum(each.time_s for each in known) / len(known)
    mean_value = sum(each.value for each in known) / len(known)
    spread = sum((each.time_s - mean_time) ** 2 for each in known)
    slope = sum((each.time_s - mean_time) * (each.value - mean_value) for each in known) / spread
    if slope <= 0:
        return None
    last = known[-1]
    left = (limit - last.value) / slope
    if left > _YEARS_MAX.total_seconds():
        return None
    return datetime.fromtimestamp(last.time_s + max(0.0, left), UTC)
