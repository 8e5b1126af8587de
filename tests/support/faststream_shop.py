"""A FastStream application in a process of its own: `python -m tests.support.faststream_shop`.

The environment has its NAME_SERVER.
"""

import asyncio
import os

from faststream import FastStream
from pydantic import BaseModel

from roquet import StartFrom
from roquet.faststream import RocketBroker, RocketRouter

broker = RocketBroker(os.environ.get("NAME_SERVER", "127.0.0.1:9876"))
app = FastStream(broker)
router = RocketRouter(prefix="shop-")


class Order(BaseModel):
    number: int
    what: str


@router.subscriber(
    "orders", group="billing", tags="new", start_from=StartFrom.FIRST, retry_count_max=2
)
@router.publisher("bills", tags="bill")
async def bill(order: Order) -> str:
    if order.what == "poison":
        raise ValueError(order.what)
    return f"{order.number}: {order.what}"


@router.subscriber("prices", group="pricing")
async def price(name: str) -> int:
    return len(name)


broker.include_router(router)

if __name__ == "__main__":
    asyncio.run(app.run())
