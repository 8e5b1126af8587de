"""Where a topic lives (105, 217), and which brokers make up a cluster (106, 901)."""

from msgspec import field

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.topic_config import QueueMapping
from roquet.protocol.codes import Permission
from roquet.protocol.fields import Int32, Int64


class BrokerData(Body, kw_only=True):
    """The brokers that share one name: a master, whose id is 0, and its slaves."""

    broker_addrs: dict[Int64, str] = always({})
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = False
    zone_name: str | None = None


class QueueData(Body, kw_only=True):
    """How many queues of a topic a broker name has, and what may be done with them."""

    broker_name: str
    perm: Int32 = always(Permission.READ | Permission.WRITE)
    read_queue_nums: Int32
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32


class TopicRoute(Body, kw_only=True):
    broker_datas: list[BrokerData] = always([])
    filter_server_table: dict[str, list[str]] = always({})
    order_topic_conf: str | None = None  # such as "broker-a:4;broker-b:4"
    queue_datas: list[QueueData] = always([])
    topic_queue_mapping_by_broker: dict[str, QueueMapping] = field(default_factory=dict)


class ClusterInfo(Body, kw_only=True):
    """Reply to 106."""

    broker_addr_table: dict[str, BrokerData] = always({})
    cluster_addr_table: dict[str, list[str]] = always({})


class BrokerMemberGroup(Body, kw_only=True):
    broker_addrs: dict[Int64, str] = always({})
    broker_name: str
    cluster: str


class BrokerMemberGroupReply(Body, kw_only=True):
    """Reply to 901."""

    broker_member_group: BrokerMemberGroup | None = None
