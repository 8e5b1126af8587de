"""The fast search for a time and the slow one agree, whatever lies in the queue and the log."""

import tempfile
from pathlib import Path

from hypothesis import given, strategies as st

from roquet.store.log_scan import NO_END
from roquet.store.reading.fast_time_search import fast_offset_by_time
from roquet.store.reading.queue_reading import Boundary, offset_by_time, store_time_of
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import log_of, queues_of
from tests.support.stores import opened

steps = st.lists(st.sampled_from([0, 0.001, 1, 5]), min_size=1, max_size=60)
damages = st.lists(
    st.tuples(st.booleans(), st.integers(0, 20_000), st.integers(1, 255)), max_size=3
)


@given(steps, damages, st.integers(-2, 70), st.booleans())
def test_both_find_the_same_offset(
    steps: list[float],
    damages: list[tuple[bool, int, int]],
    wanted: int,
    is_upper: bool,
) -> None:
    clock = FakeClock()
    timestamp = clock.now_ms() + wanted * 1000
    with (
        tempfile.TemporaryDirectory() as directory,
        opened(Path(directory), clock=clock, write_checksums=True) as store,
    ):
        for step in steps:
            store.append(draft(b"x" * 90))
            clock.advance(step)
        log = log_of(store)
        queue = queues_of(store).find(b"TopicA", 0)
        assert queue is not None
        for is_in_queue, place, bits in damages:
            files = queue.files if is_in_queue else log.files
            file = files[place // files[0].size % len(files)]
            file.mapping[place % file.size] ^= bits
        boundary = Boundary.UPPER if is_upper else Boundary.LOWER
        expected = offset_by_time(
            lambda offset: store_time_of(log, queue, offset),
            queue.min_offset,
            queue.max_offset,
            timestamp,
            boundary,
        )
        found = fast_offset_by_time(
            queue, log, queue.max_offset, timestamp, is_upper=is_upper, fresh_from=NO_END
        )
        assert found == expected or (damages and found is None)
        log.written_from = log.end  # As if it had all been found on the disk.
        assert store.offset_by_time("TopicA", 0, timestamp, boundary) == expected
