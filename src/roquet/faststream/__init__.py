"""A FastStream broker: handlers and publishers of FastStream on RocketMQ.

    broker = RocketBroker("127.0.0.1:9876")
    app = FastStream(broker)


    @broker.subscriber("orders", group="billing", tags="new || paid")
    @broker.publisher("bills")
    async def bill(order: Order) -> Bill: ...

A subscriber is a push consumer with a group of its own, and its topic is FastStream's destination.
Headers are properties, the content type is that of typed topics (`contentType`). How a handler ends
decides what becomes of its message:

    returns, or `AckMessage`              acknowledged
    raises, or `NackMessage`              RocketMQ's retry: later, and at last a dead letter
    `RejectMessage`, REJECT_ON_ERROR      a dead letter at once
    `AckPolicy.MANUAL` without a decision retried

`AckPolicy.ACK_FIRST` is refused: an offset moves after the handler, so a crash would redeliver
what that policy is meant to lose.

FastStream's classes for brokers are not public, so the extra pins its minor version. `testing` has
`TestRocketBroker`, `fastapi` the router for FastAPI.
"""

from roquet.faststream.broker import RocketBroker, RocketRouter
from roquet.faststream.messages import RocketMessage, RocketResponse
from roquet.faststream.testing import TestRocketBroker

__all__ = ["RocketBroker", "RocketMessage", "RocketResponse", "RocketRouter", "TestRocketBroker"]
