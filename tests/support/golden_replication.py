"""The link between an Apache master and its slave, as it was recorded, and the store at its end."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.support.golden_stores import STORES_DIR, unpack_store

# What the recorded master was set up with.
SIZES: dict[str, Any] = {
    "commit_log_file_size": 32768,
    "queue_file_size": 1000,
    "index_slot_count": 100,
    "index_entry_count": 400,
}


def recorded(sender: str) -> list[bytes]:
    """What the "master" or the "slave" sent, piece by piece."""
    with (STORES_DIR / "ha_49.jsonl").open() as lines:
        pieces = [json.loads(line) for line in lines]
    return [base64.b64decode(piece["b64"]) for piece in pieces if piece["from"] == sender]


def master_store(directory: Path) -> Path:
    return unpack_store("ha_49_master", directory)


def log_bytes(root: Path) -> dict[str, bytes]:
    """The files of a log."""
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}
