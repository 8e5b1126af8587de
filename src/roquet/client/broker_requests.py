"""What brokers ask a push consumer: that the group changed, and what operators want to know."""

from typing import TYPE_CHECKING, Final

from roquet.net.router import Reply, Request, Route, on
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.clients import ConsumersChangedHeader

if TYPE_CHECKING:
    from roquet.client.group_member import GroupMember


def members_changed(member: "GroupMember", request: Request[ConsumersChangedHeader]) -> Reply:
    if request.header.consumer_group == member.group:
        member.rebalance.wake()
    return Reply()


ROUTES: Final[tuple[Route["GroupMember"], ...]] = (
    on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumersChangedHeader, members_changed),
)
