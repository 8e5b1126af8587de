"""A subscription as it travels; `protocol.subscription` says what it means."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.fields import Int64


class SubscriptionData(Body, kw_only=True):
    class_filter_mode: bool = always(False)
    # Hashes of the tags. Some clients write them unsigned.
    code_set: list[Int64] = always([])
    expression_type: str = always("TAG")
    sub_string: str | None = None
    sub_version: Int64 = always(0)
    tags_set: list[str] = always([])
    topic: str


class SubscriptionCheck(Body, kw_only=True):
    """Request 46: can this expression be compiled?"""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData


class GroupSubscription(Body, kw_only=True):
    """Reply to 345."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None
