"""What 5.x adds to most requests: the broker, namespace and kind of topic they are meant for.

The fields serve its proxies and static topics. They are inherited because they are one
declaration on the other side too; a header that never carries them derives from `Header`.
"""

from msgspec import field

from roquet.protocol.fields import Header


class NoFields(Header):
    """A request or reply without header fields."""


class AddressedHeader(Header, kw_only=True):
    """Keyword only, so that a subclass may start with its mandatory fields."""

    broker_name: str | None = field(name="bname", default=None)
    namespace: str | None = field(name="ns", default=None)
    is_namespaced: bool | None = field(name="nsd", default=None)
    is_oneway: bool | None = field(name="oway", default=None)


class TopicAddressedHeader(AddressedHeader, kw_only=True):
    is_logical: bool | None = field(name="lo", default=None)
