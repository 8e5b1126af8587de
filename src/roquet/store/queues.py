"""All consume queues of a store, by topic and queue id."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import final

from roquet.disk import Disk
from roquet.protocol.errors import BadMessage
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.files.layout import StoreLayout, is_directory_name
from roquet.store.files.mapped_file import MappedFile


def queues_on_disk(disk: Disk, layout: StoreLayout) -> Iterator[tuple[bytes, int]]:
    """Topic and id of every queue that has a directory; other files are ignored."""
    for topic in disk.entries(layout.queues):
        name = os.fsencode(topic.name)
        if topic.is_directory and is_directory_name(name):
            for queue in disk.entries(layout.queues / topic.name):
                if queue.is_directory and queue.name.isascii() and queue.name.isdigit():
                    yield name, int(queue.name)


def _look_at_nothing(_: ConsumeQueue) -> None:
    pass


@final
class ConsumeQueues:
    """Changed by the one owner of the store; `sync` may run in another thread."""

    __slots__ = ("_disk", "_file_size", "_layout", "by_key")

    def __init__(self, disk: Disk, layout: StoreLayout, file_size: int) -> None:
        self._disk = disk
        self._layout = layout
        self._file_size = file_size
        # Public for the append, which looks up a queue for every message.
        self.by_key: dict[tuple[bytes, int], ConsumeQueue] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        # A copy, because it may be changed meanwhile.
        return iter(tuple(self.by_key.values()))

    def find(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        return self.by_key.get((topic, queue_id))

    def find_or_add(self, topic: bytes, queue_id: int) -> ConsumeQueue:
        """Raises BadMessage when the topic cannot be the name of a directory."""
        queue = self.by_key.get((topic, queue_id))
        if queue is None:
            if not is_directory_name(topic) or queue_id < 0:
                raise BadMessage(f"invalid queue {queue_id} of topic {topic!r}")
            queue = self.by_key[topic, queue_id] = self._make(topic, queue_id)
        return queue

    def count_of(self, topic: bytes) -> int:
        """One more than the greatest id of those that have entries."""
        if not is_directory_name(topic):
            return 0
        # Not by going through all queues: there may be thousands.
        names = (each.name for each in self._disk.entries(self._layout.queues / topic.decode()))
        ids = [int(name) for name in names if name.isascii() and name.isdigit()]
        found = [self.by_key.get((topic, queue_id)) for queue_id in ids]
        return max((each.queue_id + 1 for each in found if each and each.max_offset), default=0)

    def load(self, look_at: Callable[[ConsumeQueue], None] = _look_at_nothing) -> int | None:
        """Find all queues; from where the log has to be dispatched again, if at all.

        `look_at` is called with each sound one while its files are open.
        """
        suspect_from: int | None = None
        for topic, queue_id in queues_on_disk(self._disk, self._layout):
            queue = self.find_or_add(topic, queue_id)
            found = queue.load()
            if found is None:
                look_at(queue)
            else:
                suspect_from = found if suspect_from is None else min(suspect_from, found)
            # There may be more queues than a process can have files open.
            queue.close_files()
        # Without a single queue everything is dispatched from the log.
        return suspect_from if self.by_key else 0

    def close_files(self, keys: Iterable[tuple[bytes, int]]) -> None:
        """Of these queues, after a sync. Only while no other thread uses them."""
        for key in keys:
            queue = self.by_key.get(key)
            if queue is not None:
                if queue.is_written:
                    queue.sync()
                queue.close_files()

    def remove(self, queue: ConsumeQueue) -> list[MappedFile]:
        """Remove a queue and unlink its files; the caller closes them."""
        del self.by_key[queue.topic, queue.queue_id]
        files = queue.detach()
        for file in files:
            file.unlink()
        directory = self._layout.queue(queue.topic.decode(), queue.queue_id)
        if self._disk.exists(directory):
            self._disk.remove_directory(directory)
            if not self._disk.entries(directory.parent):
                self._disk.remove_directory(directory.parent)
        return files

    def sync(self) -> None:
        """Return when the entries that were there before the call survive a power cut."""
        for queue in self:
            queue.sync()

    def close(self) -> None:
        for queue in self:
            queue.close()
        self.by_key.clear()

    def _make(self, topic: bytes, queue_id: int) -> ConsumeQueue:
        directory = self._layout.queue(topic.decode(), queue_id)
        return ConsumeQueue(self._disk, directory, self._file_size, topic, queue_id)
