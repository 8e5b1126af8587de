"""A store in the hands of a broker that writes no checksums and knows nothing of our notes."""

from collections.abc import Callable
from pathlib import Path

from roquet.store.message_store import MessageStore
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.stores import open_store

# What `recovery/checkpoint.py` draws: Apache leaves it as it is.
OUR_NOTE = slice(488, 512)
OUR_FILES = ("checksummed.json", "checksummed.json.bak")


def owned_by_another(
    root: Path,
    use: Callable[[MessageStore], object],
    end: Callable[[MessageStore], None] = MessageStore.close,
) -> None:
    """What Apache does to a store, by our own means: `use` it, and leave our notes alone."""
    kept = {name: (root / name).read_bytes() for name in OUR_FILES}
    note = (root / "checkpoint").read_bytes()[OUR_NOTE]
    for name in kept:
        (root / name).unlink()
    # Later than everything of ours, so that the checkpoint has another time.
    clock = FakeClock(START_MS + 3_600_000)
    store = open_store(root, clock=clock, write_checksums=False)
    use(store)
    end(store)
    for name in OUR_FILES:
        (root / name).write_bytes(kept[name])
    (root / "lock").write_bytes(b"lock")
    checkpoint = bytearray((root / "checkpoint").read_bytes())
    checkpoint[OUR_NOTE] = note
    (root / "checkpoint").write_bytes(checkpoint)
