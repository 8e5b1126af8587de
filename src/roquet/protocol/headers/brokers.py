"""Headers of administration of a broker and its accounts, and between replicas of one name."""

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
    """Ours. `force` promotes although the master seems to be running."""

    force: bool = False


class PromoteBrokerReplyHeader(Header):
    """Ours: when the new master acknowledges sends, and its epoch."""

    acknowledge: str
    epoch: Int64


class DemoteBrokerHeader(Header):
    """Ours. `force` steps down although no slave has all that the master has."""

    broker_id: Int64
    force: bool = False


# Accounts of 4.x, users and policies of 5.x.


class PutAccountHeader(Header):
    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None  # "topicA=DENY,topicB=PUB|SUB"
    group_perms: str | None = None

    def __repr__(self) -> str:
        return f"PutAccountHeader({self.access_key!r})"


class DeleteAccountHeader(Header):
    access_key: str


class AccountsVersionReplyHeader(Header):
    version: str  # a DataVersion as JSON
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None  # JSON map: file -> DataVersion


class GlobalWhiteAddressesHeader(Header):
    global_white_addrs: str  # joined by commas
    acl_file_full_path: str | None = None


class UserHeader(Header):
    username: str


class ListUsersHeader(Header):
    filter: str | None = None


class PolicyHeader(Header):
    subject: str  # "User:name"


class DeletePolicyHeader(Header):
    subject: str
    policy_type: str | None = None
    resource: str | None = None


class ListPoliciesHeader(Header):
    subject_filter: str | None = None
    resource_filter: str | None = None
