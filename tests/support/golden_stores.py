"""Store directories as real Apache brokers left them, unpacked to be worked on."""

from pathlib import Path

from scripts.archives import unpack

STORES_DIR = Path(__file__).parent.parent / "golden" / "store"
STORE_NAMES = ("ha_49_master", "v49_clean", "v49_crashed", "v55_clean", "v55_crashed")


def unpack_store(name: str, directory: Path) -> Path:
    """The root of the store, a new directory in `directory`."""
    unpack(STORES_DIR / f"{name}.tar.gz", directory)
    return directory / name
