"""Options of format `rocketmq` for writing, in batch and from a stream."""

from dataclasses import dataclass
from enum import StrEnum

from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import group, option
from roquet.pipeline.options.kinds import choice, count, size, text


class DeliveryMode(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    cluster: ClusterOptions = group(ClusterOptions)
    topic: str | None = option(
        "topic", text, "the topic of rows that have no column `topic`, or null in it", None
    )
    delivery_mode: DeliveryMode = option(
        "deliveryMode",
        choice(DeliveryMode),
        "what a repeated task or batch leaves behind; see below",
        DeliveryMode.AT_LEAST_ONCE,
    )
    group_id: str = option(
        "groupId",
        text,
        "the producer group; transactions are asked about by it",
        "roquet-spark-sink",
    )
    batch_size: int = option(
        "batchSize", size, "the most bytes of one request", 512 << 10, shown="512k"
    )
    batch_count: int = option("batchCount", count, "the most messages of one request", 1024)
    in_flight: int = option("inFlight", count, "requests of one task that are under way", 16)
