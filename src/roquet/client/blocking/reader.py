"""The blocking twin of the topic reader."""

from collections.abc import Generator
from contextlib import closing
from datetime import datetime
from typing import Unpack, final

from roquet.client.blocking.twin import BlockingTwin, blocking, described_by
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.client.reader.reader import ALL, AsyncTopicReader, TopicReaderOptions
from roquet.client.received import ReceivedMessage
from roquet.protocol.subscription import Subscription


@final
@described_by(AsyncTopicReader)
class TopicReader(BlockingTwin[AsyncTopicReader]):
    """Reads topics without a group, and moves no offsets. `AsyncTopicReader` is for asyncio.

    While messages are processed, the next ones are fetched. `records` are raw, in chunks. `options`
    are the members of `TopicReaderConfig`.

    For example:

        with TopicReader("127.0.0.1:9876") as reader:
            for message in reader.messages("orders", since=datetime.now(UTC) - timedelta(hours=1)):
                print(message.keys, message.body)
    """

    def __init__(
        self, name_server: str | None = None, **options: Unpack[TopicReaderOptions]
    ) -> None:
        super().__init__(AsyncTopicReader(name_server, **options), "topic reader")

    topics = blocking(AsyncTopicReader.topics)
    queues = blocking(AsyncTopicReader.queues)
    bounds = blocking(AsyncTopicReader.bounds)
    offsets_at = blocking(AsyncTopicReader.offsets_at)
    earliest_store_times = blocking(AsyncTopicReader.earliest_store_times)
    committed = blocking(AsyncTopicReader.committed)
    commit = blocking(AsyncTopicReader.commit)
    to_arrow = blocking(AsyncTopicReader.to_arrow)
    to_pandas = blocking(AsyncTopicReader.to_pandas)
    to_polars = blocking(AsyncTopicReader.to_polars)

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

    def messages(
        self,
        topic: str,
        *,
        since: datetime | None = None,
        subscription: Subscription = ALL,
        skip_gone: bool = False,
    ) -> Generator[ReceivedMessage, None, None]:
        # Many at a time: the way to the other thread and back takes longer than most messages.
        batches = self._each(
            self._twin._batches(topic, since, subscription, skip_gone=skip_gone)  # noqa: SLF001
        )
        with closing(batches):
            for batch in batches:
                yield from batch
