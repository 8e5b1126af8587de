"""Every byte of a store is flipped, one at a time: it opens, and says nothing wrong."""

import os
from itertools import islice

import pytest

from tests.support.flipped_bytes import after_flip, original

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
MASKS = tuple(1 << bit for bit in range(8)) if IS_LONG else (0xFF,)
SHARDS = 8
# A crashed store is opened in much the same way, so some of its bytes will do.
CRASHED_STEP = 1 if IS_LONG else 29


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_flipped_byte_costs_at_most_its_own_message(shard: int) -> None:
    store = original(is_clean=True)
    violations = [
        violation
        for flip in islice(store.flips(*MASKS), shard, None, SHARDS)
        for violation in after_flip(store, flip)
    ]
    assert violations == []


@pytest.mark.parametrize("shard", range(SHARDS) if IS_LONG else [0])
def test_a_flipped_byte_in_a_crashed_store_is_never_taken_for_a_message(shard: int) -> None:
    store = original(is_clean=False)
    step = SHARDS if IS_LONG else CRASHED_STEP
    violations = [
        violation
        for flip in islice(store.flips(*MASKS), shard, None, step)
        for violation in after_flip(store, flip)
    ]
    assert violations == []
