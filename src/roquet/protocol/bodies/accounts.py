"""Accounts and permissions: the list of 4.9 (54), users and policies of 5.x (3001-3010)."""

from roquet.protocol.bodies.body import Body, always


class AccountConfig(Body, kw_only=True):
    access_key: str
    admin: bool = always(False)
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None  # such as "group=SUB"
    secret_key: str | None = None
    topic_perms: list[str] | None = None  # such as "topic=PUB|SUB"
    white_remote_address: str | None = None

    def __repr__(self) -> str:
        return f"AccountConfig({self.access_key!r})"


class AccountConfigs(Body, kw_only=True):
    """Reply to 54."""

    global_white_addrs: list[str] = always([])
    plain_access_configs: list[AccountConfig] = always([])


class User(Body, kw_only=True):
    """Requests 3001 and 3002, reply to 3004, and item of the reply to 3005."""

    password: str | None = None
    user_status: str | None = None  # "enable" or "disable"
    user_type: str | None = None  # "Super" or "Normal"
    username: str | None = None

    def __repr__(self) -> str:
        return f"User({self.username!r})"


class PolicyEntry(Body, kw_only=True):
    actions: list[str] | None = None  # such as "Pub", "Sub", "All"
    decision: str | None = None  # "Allow" or "Deny"
    resource: str | None = None  # such as "Topic:orders", "Group:*"
    source_ips: list[str] | None = None


class Policy(Body, kw_only=True):
    entries: list[PolicyEntry] | None = None
    policy_type: str | None = None  # "Custom" or "Default"


class Acl(Body, kw_only=True):
    """Requests 3006 and 3007, reply to 3009, and item of the reply to 3010."""

    policies: list[Policy] | None = None
    subject: str | None = None  # such as "User:ann"
