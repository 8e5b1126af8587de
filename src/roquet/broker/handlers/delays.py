"""Progress of delayed messages, which slaves copy from their master (45)."""

from roquet.access.needs import EVERYTHING
from roquet.broker.broker import Broker
from roquet.net.router import Reply, Request, on
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import NoFields


def get_all_delay_offsets(broker: Broker, _request: Request[NoFields]) -> Reply:
    """As the file has them: a slave that knew more than its log would lose messages."""
    return Reply(body=broker.delays.levels.state.to_bytes())


ROUTES = (on(RequestCode.GET_ALL_DELAY_OFFSET, NoFields, get_all_delay_offsets, needs=EVERYTHING),)
