"""Which store is meant by a directory: its own, or the only one below it.

`roquet up --dir DIR` keeps the files of each of its brokers in a directory below DIR, and
DIR is what people remember.
"""

from pathlib import Path

from roquet.disk import Disk
from roquet.store.errors import BadStoreDirectory, SeveralStores
from roquet.store.files.layout import StoreLayout, layout_of


def find_store(disk: Disk, root: Path, commit_log: Path | None = None) -> StoreLayout:
    """Raises BadStoreDirectory where there is no store, SeveralStores where there are several."""
    layout = layout_of(root, commit_log)
    if disk.exists(layout.commit_log):
        return layout
    # Whoever names a log means exactly that one.
    stores = [] if commit_log is not None else _stores_below(disk, root)
    if len(stores) > 1:
        raise SeveralStores(root, [each.root for each in stores])
    if not stores:
        raise BadStoreDirectory(root, f"there is no {layout.commit_log.name} in it")
    return stores[0]


def find_stores(disk: Disk, root: Path) -> list[StoreLayout]:
    """The store of a directory, or all those below it. Raises BadStoreDirectory for none."""
    try:
        return [find_store(disk, root)]
    except SeveralStores:
        return _stores_below(disk, root)


def _stores_below(disk: Disk, root: Path) -> list[StoreLayout]:
    layouts = [layout_of(root / each.name) for each in disk.entries(root) if each.is_directory]
    return [each for each in layouts if disk.exists(each.commit_log)]
