"""Headers of account management: accounts of 4.x, users and policies of 5.x."""

from roquet.protocol.fields import Header


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
