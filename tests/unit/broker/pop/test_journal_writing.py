"""Both ways of noting pops and acks write the same bytes, and know of the same messages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import JournalForm
from roquet.broker.tables.offsets import OffsetTable
from tests.support.drafts import STORE_HOST
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import log_of
from tests.support.ram_disk import RamDisk
from tests.support.stores import open_store

ROOT = Path("/store")
LARGE_FILES: dict[str, Any] = {"commit_log_file_size": 1 << 20, "queue_file_size": 20_000}

# Some of them have what records have, and what stands for a number where texts are cut.
names = st.one_of(
    st.sampled_from(["orders", 'a"so":1999999999', "1999999999", '"d":[1999999999]', "é", "\\"]),
    st.text(max_size=8),
)
keys = st.builds(
    PopKey,
    st.builds(QueueOfGroup, names, names, st.integers(0, 2**31 - 1)),
    st.integers(0, 2**60),
    st.sampled_from([1_794_934_487_260, 0, 1 << 60, 2**62]),
)
offsets = st.one_of(
    st.builds(
        lambda start, count: range(start, start + count),
        # Numbers grow by a digit among them, too.
        st.sampled_from([0, 17, 995, 10**12 - 3, 2**60]),
        st.integers(1, 300),
    ),
    st.sets(st.integers(0, 2**60), min_size=1, max_size=40).map(sorted),
)


class Noted(NamedTuple):
    ends: list[int]
    points: list[tuple[object, ...]]
    lag: int
    log: list[bytes]


def noted(
    key: PopKey, popped: Sequence[int], invisible_ms: int, *, compiled: bool, checked: bool
) -> Noted:
    disk = RamDisk()
    store = open_store(ROOT, clock=FakeClock(), disk=disk, **LARGE_FILES)
    form = JournalForm("DefaultCluster", "broker-a", STORE_HOST, has_checksum=checked)
    journal = PopJournal(store, OffsetTable(), FakeClock(), form)
    journal.load()
    if not compiled:
        journal.fast = None
    points: list[tuple[object, ...]] = []

    def note(end: int) -> int:
        points.extend(
            (point.key, list(point.offsets), point.open_bits, point.due_ms, point.place)
            for point in journal.in_flight.points()
        )
        return end

    later = key._replace(pop_time_ms=key.pop_time_ms + 1)
    # The first of a queue creates it, and is written in the one way.
    ends = [note(journal.note_pop(each, popped, invisible_ms, 20)) for each in (key, later, key)]
    ends += [
        note(journal.note_acks(each, offsets))
        for each in (key, later)
        for offsets in (popped[:1], popped, popped)
    ]
    found = Noted(ends, points, journal.lag, [file.mapping[:] for file in log_of(store).files])
    store.close()
    disk.wipe()
    return found


@pytest.mark.parametrize("checked", [True, False])
@given(
    key=keys,
    popped=offsets,
    invisible_ms=st.sampled_from([60_000, 0, 2**60, 2**63 - 1]),
)
def test_both_ways_note_the_same(
    key: PopKey, popped: Sequence[int], invisible_ms: int, *, checked: bool
) -> None:
    compiled = noted(key, popped, invisible_ms, compiled=True, checked=checked)
    assert compiled == noted(key, popped, invisible_ms, compiled=False, checked=checked)
