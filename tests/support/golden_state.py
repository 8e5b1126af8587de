"""The state files of real Apache brokers, from their store directories."""

import tarfile
from functools import cache
from pathlib import Path

STORES_DIR = Path(__file__).parent.parent / "golden" / "store"
STORES = ("ha_49_master", "v49_clean", "v49_crashed", "v55_clean", "v55_crashed")


@cache
def golden_state(store: str, name: str) -> bytes:
    """The content of `config/<name>` in a store."""
    with tarfile.open(STORES_DIR / f"{store}.tar.gz") as archive:
        file = archive.extractfile(f"{store}/config/{name}")
        assert file is not None
        return file.read()
