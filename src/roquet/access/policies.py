"""Policies of RocketMQ 5 (ACL 2.0): who may do what with which resource, from where.

    resource      Topic:orders      one
                  Topic:order*      all whose names start so
                  Topic:*           all topics
                  *                 all topics, groups and clusters
    actions       Pub Sub Create Update Delete Get List, or All
    source_ips    addresses and networks; none are all
    decision      Allow or Deny

The most specific matching entry decides. Pure: the file of users is read in `user_file`.
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, TypeVar, final

import msgspec

from roquet.access.errors import BadRules
from roquet.net.router import Need
from roquet.protocol.acl import Right
from roquet.protocol.names import RETRY_PREFIX, is_closed_topic

_ANY_NAME: Final = "*"
_SHOWN_SIZE_MAX: Final = 100


class Action(StrEnum):
    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceKind(StrEnum):
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(IntEnum):
    """In the order in which they decide."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Decision(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(StrEnum):
    """Entries of `DEFAULT` decide if no entry of `CUSTOM` matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


Actions = frozenset[Action]
_Network = IPv4Network | IPv6Network
_Choice = TypeVar("_Choice", bound=StrEnum)


@final
class Resource(msgspec.Struct, frozen=True):
    kind: ResourceKind
    pattern: Pattern
    name: str = ""

    def __str__(self) -> str:
        if self.kind is ResourceKind.ANY:
            return _ANY_NAME
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else _ANY_NAME}"

    def includes(self, kind: ResourceKind, name: str) -> bool:
        if self.kind not in (ResourceKind.ANY, kind):
            return False
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        # Messages of all topics wait in those; only their full name is enough.
        if kind is ResourceKind.TOPIC and is_closed_topic(name):
            return False
        return name.startswith(self.name)


@final
class Wanted(msgspec.Struct, frozen=True):
    """What a request does: one of the actions suffices."""

    kind: ResourceKind
    name: str
    actions: Actions

    def __str__(self) -> str:
        return f"{self.kind}:{self.name[:_SHOWN_SIZE_MAX]}"


@final
class PolicyRule(msgspec.Struct, frozen=True):
    """One entry of a policy."""

    resource: Resource
    actions: Actions
    decision: Decision
    networks: tuple[_Network, ...] = ()

    def matches(self, wanted: Wanted, ip: str) -> bool:
        return (
            self.resource.includes(wanted.kind, wanted.name)
            and (Action.ALL in self.actions or not self.actions.isdisjoint(wanted.actions))
            and (not self.networks or self._includes(ip))
        )

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """The lowest decides: any kind last, longer prefixes first, and Deny before Allow."""
        resource = self.resource
        return (
            resource.kind is ResourceKind.ANY,
            resource.pattern,
            -len(resource.name),
            self.decision is Decision.ALLOW,
        )

    def _includes(self, ip: str) -> bool:
        address = _address_of(ip)
        return address is not None and any(address in network for network in self.networks)


def deciding(rules: Iterable[PolicyRule], wanted: Wanted, ip: str) -> PolicyRule | None:
    """The most specific of the rules that match; None if there is none."""
    matching = [rule for rule in rules if rule.matches(wanted, ip)]
    return min(matching, key=lambda rule: rule.rank, default=None)


def wanted_by(need: Need, more: Actions = frozenset()) -> Wanted:
    """A right on a topic, or on a group, which is called by the topic of its retries."""
    actions = more | {action for right, action in _RIGHTS.items() if need.right & right}
    if need.topic.startswith(RETRY_PREFIX):
        return Wanted(ResourceKind.GROUP, need.topic.removeprefix(RETRY_PREFIX), actions)
    return Wanted(ResourceKind.TOPIC, need.topic, actions)


_RIGHTS: Final = {Right.PUB: Action.PUB, Right.SUB: Action.SUB}


def read_resource(text: str) -> Resource:
    """Raises BadRules."""
    if text == _ANY_NAME:
        return Resource(ResourceKind.ANY, Pattern.ANY)
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise BadRules(None, f"{text[:_SHOWN_SIZE_MAX]!r} is not a resource: KIND:NAME, or *")
    prefix = name.removesuffix(_ANY_NAME)
    if _ANY_NAME in prefix:
        raise BadRules(None, f"{text[:_SHOWN_SIZE_MAX]!r}: a * may only be at the end of a name")
    found = choice(ResourceKind, kind)
    if prefix == name:
        return Resource(found, Pattern.LITERAL, name)
    return Resource(found, Pattern.PREFIXED if prefix else Pattern.ANY, prefix)


def read_actions(texts: Iterable[str] | None) -> Actions:
    """Raises BadRules."""
    actions = frozenset(choice(Action, text) for text in texts or ())
    if not actions:
        raise BadRules(None, f"an entry needs actions: {', '.join(Action)}")
    return actions


def read_networks(texts: Iterable[str] | None) -> tuple[_Network, ...]:
    """Raises BadRules."""
    try:
        return tuple(ip_network(text.strip(), strict=False) for text in texts or ())
    except ValueError:
        raise BadRules(None, "source addresses are such as 10.0.0.7 or 10.0.0.0/8") from None


def choice(kind: type[_Choice], text: str) -> _Choice:
    """By its name, in any case of letters, as Apache reads it. Raises BadRules."""
    for each in kind:
        if each.lower() == text.strip().lower():
            return each
    raise BadRules(None, f"{text[:_SHOWN_SIZE_MAX]!r} is not one of {', '.join(kind)}")


@lru_cache(maxsize=4096)
def _address_of(ip: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
