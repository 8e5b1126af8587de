"""Store directories as real Apache brokers left them, unpacked to be worked on."""

import tarfile
from pathlib import Path

STORES_DIR = Path(__file__).parent.parent / "golden" / "store"
STORE_NAMES = ("ha_49_master", "v49_clean", "v49_crashed", "v55_clean", "v55_crashed")


def unpack_store(name: str, directory: Path) -> Path:
    """The root of the store, a new directory in `directory`."""
    with tarfile.open(STORES_DIR / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name
