"""The blocking twin of the topic reader."""

from collections.abc import Generator, Iterable, Mapping
from datetime import datetime
from typing import Unpack, final

from roquet.client.blocking.twin import BlockingTwin, described_by
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.client.reader.config import TopicReaderOptions
from roquet.client.reader.reader import ALL, AsyncTopicReader, Bounds
from roquet.protocol.subscription import Subscription


@final
@described_by(AsyncTopicReader)
class TopicReader(BlockingTwin[AsyncTopicReader]):
    """Reads topics without a group, and moves nobody's offsets. `AsyncTopicReader` is for asyncio.

    Records come raw, many at a time; while one chunk is looked at, the next ones come. `options`
    are the members of `TopicReaderConfig`.

    For example:

        with TopicReader("127.0.0.1:9876") as reader:
            for queue, (begin, end) in reader.bounds(reader.queues("orders")).items():
                for chunk in reader.records(queue, begin, end):
                    print(queue.queue_id, chunk.count, len(chunk.data))
    """

    def __init__(
        self, name_server: str | None = None, **options: Unpack[TopicReaderOptions]
    ) -> None:
        super().__init__(AsyncTopicReader(name_server, **options), "topic reader")

    def topics(self, pattern: str | None = None) -> list[str]:
        return self._thread.run(self._twin.topics(pattern))

    def queues(self, topic: str) -> list[QueueRef]:
        return self._thread.run(self._twin.queues(topic))

    def bounds(self, queues: Iterable[QueueRef]) -> dict[QueueRef, Bounds]:
        return self._thread.run(self._twin.bounds(queues))

    def offsets_at(self, queues: Iterable[QueueRef], moment: datetime) -> dict[QueueRef, int]:
        return self._thread.run(self._twin.offsets_at(queues, moment))

    def earliest_store_times(self, queues: Iterable[QueueRef]) -> dict[QueueRef, datetime | None]:
        return self._thread.run(self._twin.earliest_store_times(queues))

    def committed(self, group: str, queues: Iterable[QueueRef]) -> dict[QueueRef, int | None]:
        return self._thread.run(self._twin.committed(group, queues))

    def commit(self, group: str, offsets: Mapping[QueueRef, int]) -> None:
        self._thread.run(self._twin.commit(group, offsets))

    def records(
        self,
        queue: QueueRef,
        start: int,
        end: int,
        *,
        subscription: Subscription = ALL,
        skip_gone: bool = False,
    ) -> Generator[RecordChunk, None, None]:
        chunks = self._twin.records(
            queue, start, end, subscription=subscription, skip_gone=skip_gone
        )
        return self._each(chunks)
