"""Consumer groups: settings (200, 201, 225, 352, 353), members (38, 300), queue locks (41, 42)."""

from msgspec import field

from roquet.protocol.bodies.body import Body, DataVersion, MessageQueue, always
from roquet.protocol.fields import Int32, Int64


class ExponentialRetry(Body, kw_only=True):
    """Times in milliseconds."""

    initial: Int64 = always(5_000)
    max: Int64 = always(7_200_000)
    multiplier: Int64 = always(2)


class CustomizedRetry(Body, kw_only=True):
    """Waiting times in milliseconds, one per try; absent means the broker's delay levels."""

    next: list[Int64] | None = None


class GroupRetryPolicy(Body, kw_only=True):
    customized_retry_policy: CustomizedRetry | None = None
    exponential_retry_policy: ExponentialRetry | None = None
    type: str = always("CUSTOMIZED")  # or "EXPONENTIAL"


class SimpleSubscription(Body, kw_only=True):
    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always(0)


class GroupConfig(Body, kw_only=True):
    attributes: dict[str, str] = field(default_factory=dict)
    broker_id: Int64 = always(0)
    consume_broadcast_enable: bool = always(True)
    consume_enable: bool = always(True)
    consume_from_min_enable: bool = always(True)
    consume_message_orderly: bool = False
    consume_timeout_minute: Int32 = 15
    group_name: str
    group_retry_policy: GroupRetryPolicy | None = None
    group_sys_flag: Int32 = 0
    notify_consumer_ids_changed_enable: bool = always(True)
    retry_max_times: Int32 = always(16)
    retry_queue_nums: Int32 = always(1)
    subscription_data_set: list[SimpleSubscription] | None = None
    which_broker_when_consume_slowly: Int64 = always(1)


class GroupConfigTable(Body, kw_only=True):
    """Reply to 201."""

    data_version: DataVersion = always(DataVersion())
    forbidden_table: dict[str, dict[str, Int32]] = field(
        default_factory=dict
    )  # group -> topic -> bits
    subscription_group_table: dict[str, GroupConfig] = always({})


class GroupConfigList(Body, kw_only=True):
    """Request 225."""

    group_config_list: list[GroupConfig] = always([])


class GroupForbidden(Body, kw_only=True):
    """Reply to 353."""

    group: str | None = None
    readable: bool | None = None
    topic: str | None = None


class GroupList(Body, kw_only=True):
    """Reply to 300: the groups that consume a topic."""

    group_list: list[str] = always([])


class ConsumerIds(Body, kw_only=True):
    """Reply to 38: the client ids of a consumer group."""

    consumer_id_list: list[str] = always([])


class QueueLockRequest(Body, kw_only=True):
    """Requests 41 and 42."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = always([])
    only_this_broker: bool = False


class LockedQueues(Body, kw_only=True):
    """Reply to 41: those of the requested queues that the client now holds."""

    queues: list[MessageQueue] = always([], name="lockOKMQSet")
