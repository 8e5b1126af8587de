"""Every byte of a store is flipped, one at a time: it opens, and says nothing wrong.

And whole sectors of the log, and the checksum of each record, give way to something else.
"""

from itertools import islice
from random import Random

import pytest

from tests.support.flipped_bytes import after_flip, after_garbage, original
from tests.support.gates import IS_LONG, IS_QUICK, few

MASKS = tuple(1 << bit for bit in range(8)) if IS_LONG else (0xFF,)
SHARDS = 16
# A crashed store is opened in much the same way, so some of its bytes will do.
CRASHED_STEP = 97 if IS_QUICK else 29
SECTOR_SIZE = 512
GARBAGE_ROUNDS = 20 if IS_LONG else 1


@pytest.mark.parametrize("shard", few(range(SHARDS), 1, "the other bytes of a store"))
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


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_no_garbage_over_a_checksum_makes_another_message(is_clean: bool) -> None:
    store = original(is_clean=is_clean)
    # As properties go; so nothing but the checksum says that it was not sent.
    garbage = b"name\x01some values\x02a\x01b"
    violations = [
        violation
        for each in store.sent
        for violation in after_garbage(store, each.physical_end - len(garbage), garbage)
    ]
    assert violations == []


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_a_sector_of_garbage_makes_no_other_messages(is_clean: bool) -> None:
    store = original(is_clean=is_clean)
    violations = []
    for seed in range(GARBAGE_ROUNDS):
        chance = Random(seed)
        for sector in range(store.sent[-1].physical_end // SECTOR_SIZE):
            garbage = chance.choice((chance.randbytes(SECTOR_SIZE), bytes(SECTOR_SIZE)))
            violations += after_garbage(store, sector * SECTOR_SIZE, garbage)
    assert violations == []
