from roquet.store.keys.message_keys import Key, KeyBatch, join_batches, pack_keys

KEYS = [Key(100, 5000, 7), Key(100, 5000, 2**31 - 1), Key(2**62, -1, 0)]


def test_keys_survive_a_round_trip() -> None:
    batch = pack_keys(KEYS)
    assert list(batch) == KEYS
    assert len(batch) == 3
    assert (batch.first, batch.last) == (KEYS[0], KEYS[2])


def test_a_part_has_its_keys_only() -> None:
    batch = pack_keys(KEYS)
    assert list(batch.part(1)) == KEYS[1:]
    assert list(batch.part(0, 2)) == KEYS[:2]
    assert len(batch.part(3)) == 0


def test_batches_are_joined_in_their_order() -> None:
    assert list(join_batches([pack_keys(KEYS[:1]), KeyBatch(b""), pack_keys(KEYS[1:])])) == KEYS
    assert len(join_batches([])) == 0
