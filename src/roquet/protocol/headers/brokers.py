"""Headers of administration of a whole broker, and between the replicas of one broker name."""

from roquet.protocol.fields import Header, Int64


class BrokerConfigReplyHeader(Header):
    version: str  # a DataVersion as JSON


class BrokerStatsHeader(Header):
    stats_name: str
    stats_key: str


class ExchangeReplicaInfoHeader(Header):
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeReplicaInfoReplyHeader(Header):
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class AllOffsetsHeader(Header):
    """With 43 and 45. A slave of Apache sends none of it; one of ours sends the version of the
    table it has, or an empty text if it has none: only then is the master's version sent.
    """

    known_version: str | None = None


class AllOffsetsReplyHeader(Header):
    """Of a master of ours. There is no body if the version is the one that was known."""

    version: str | None = None


class AllProgressReplyHeader(Header):
    """The same for 45. A slave uses the progress of that master alone whose log it has: `epoch`
    names the one that answered, 0 where there are no epochs.
    """

    version: str | None = None
    epoch: Int64 | None = None


class PromoteBrokerHeader(Header):
    """Ours. `force` promotes although the master seems to be alive."""

    force: bool = False


class PromoteBrokerReplyHeader(Header):
    """Ours: when the new master acknowledges sends, and its epoch."""

    acknowledge: str
    epoch: Int64


class DemoteBrokerHeader(Header):
    """Ours. `force` steps down although no slave has all that the master has."""

    broker_id: Int64
    force: bool = False
