"""Topics: their settings (18, 21, 351), their names, what their queues hold (202, 321, 354).

Queues of a "static topic" are spread over brokers by a queue mapping. Only 5.x has them; they
are declared so that nothing is lost between one Java peer and another.
"""

from enum import StrEnum

from msgspec import field

from roquet.protocol.bodies.body import Body, DataVersion, QueueTable, always
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.codes import Permission
from roquet.protocol.fields import Int32, Int64


class TopicFilterType(StrEnum):
    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class QueueMapping(Body, kw_only=True):
    """Which queues of a planned topic one broker name has."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] = field(
        default_factory=dict
    )  # number in the topic -> number on the broker
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    scope: str = always("__global__")
    topic: str
    total_queues: Int32 = always(0)


class QueueMappingItem(Body, kw_only=True):
    """A stretch of a planned queue that lies in one real queue; -1 means not ended."""

    bname: str | None = None
    end_offset: Int64 = always(-1)
    gen: Int32 = always(0)
    logic_offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    start_offset: Int64 = always(0)
    time_of_end: Int64 = always(-1)
    time_of_start: Int64 = always(-1)


class QueueMappingDetail(Body, kw_only=True):
    """A queue mapping with its history (request 513)."""

    bname: str | None = None
    curr_id_map: dict[Int32, Int32] = field(default_factory=dict)
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    hosted_queues: dict[Int32, list[QueueMappingItem]] = always({})
    scope: str = always("__global__")
    topic: str
    total_queues: Int32 = always(0)


class TopicConfig(Body, kw_only=True):
    attributes: dict[str, str] = field(default_factory=dict)
    mapping_detail: QueueMappingDetail | None = None  # in replies to 351 only
    order: bool = always(False)
    perm: Int32 = always(int(Permission.READ | Permission.WRITE))
    read_queue_nums: Int32 = always(16)
    topic_filter_type: str = always(TopicFilterType.SINGLE_TAG)
    topic_name: str
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(16)

    @property
    def queue_count(self) -> int:
        """How many queues can hold messages: some may only be read, others only written."""
        return max(self.read_queue_nums, self.write_queue_nums)


class TopicConfigTable(Body, kw_only=True):
    """Reply to 21, and part of a registration."""

    data_version: DataVersion = always(DataVersion())
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = always({})
    topic_queue_mapping_detail_map: dict[str, QueueMappingDetail] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, QueueMapping] = field(default_factory=dict)


class TopicConfigList(Body, kw_only=True):
    """Request 18."""

    topic_config_list: list[TopicConfig] = always([])


class TopicOffsets(Body, kw_only=True):
    last_update_timestamp: Int64 = always(0)
    max_offset: Int64 = always(0)
    min_offset: Int64 = always(0)


class TopicStats(Body, kw_only=True):
    """Reply to 202."""

    offset_table: QueueTable[TopicOffsets] = always(QueueTable())
    topic_put_tps: float = 0.0


class TopicList(Body, kw_only=True):
    """Reply to 206, 224, 304, 305, 311-313, 343."""

    broker_addr: str | None = None
    topic_list: list[str] = always([])


class ConsumeQueueEntry(Body, kw_only=True):
    bit_map: str | None = None
    eval: bool = always(False)  # whether the group's filter lets it pass
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64


class ConsumeQueueView(Body, kw_only=True):
    """Reply to 321."""

    filter_data: str | None = None
    max_queue_index: Int64 = always(0)
    min_queue_index: Int64 = always(0)
    queue_data: list[ConsumeQueueEntry] = always([])
    subscription_data: SubscriptionData | None = None


class QueueCopyCheck(Body, kw_only=True):
    """Reply to 354."""

    check_result: str | None = None
    check_status: Int32 = always(0)
