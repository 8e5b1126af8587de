"""Both ways of writing a record of the journal write the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal_writing import JournalForm, JournalWriter, Written
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
    st.lists(st.integers(0, 2**60), min_size=1, max_size=40),
)


def written(
    key: PopKey, popped: Sequence[int], invisible_ms: int, *, compiled: bool, checked: bool
) -> tuple[list[Written], list[bytes]]:
    disk = RamDisk()
    store = open_store(ROOT, clock=FakeClock(), disk=disk, **LARGE_FILES)
    form = JournalForm("DefaultCluster", "broker-a", STORE_HOST, has_checksum=checked)
    writer = JournalWriter(store, FakeClock(), form)
    if not compiled:
        writer.texts = None
    # The first of a queue creates it, and is written in the one way.
    ends = [writer.write_pop(key, popped, invisible_ms, 20) for _ in range(2)]
    ends += [writer.write_acks(0, key, popped), writer.write_acks(0, key, popped[:1])]
    found = [file.mapping[:] for file in log_of(store).files]
    store.close()
    disk.wipe()
    return ends, found


@pytest.mark.parametrize("checked", [True, False])
@given(
    key=keys,
    popped=offsets,
    invisible_ms=st.sampled_from([60_000, 0, 2**60, 2**63 - 1]),
)
def test_both_ways_write_the_same(
    key: PopKey, popped: Sequence[int], invisible_ms: int, *, checked: bool
) -> None:
    compiled = written(key, popped, invisible_ms, compiled=True, checked=checked)
    assert compiled == written(key, popped, invisible_ms, compiled=False, checked=checked)
