"""A FastAPI application with a producer of its lifespan and FastStream's router.

Served by uvicorn, and by gunicorn with `preload_app`, which imports it before it forks. The
environment has its NAME_SERVER.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request

from roquet import AsyncProducer, Message, StartFrom
from roquet.faststream.fastapi import RocketApiRouter

NAME_SERVER = os.environ.get("NAME_SERVER", "127.0.0.1:9876")
router = RocketApiRouter(NAME_SERVER)
billed: list[str] = []


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncProducer(NAME_SERVER, group="shop") as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)


def shouting() -> str:
    return "!"


@router.subscriber("orders", group="billing", start_from=StartFrom.FIRST)
async def bill(order: str, mark: str = Depends(shouting)) -> None:
    billed.append(order + mark)


@app.post("/orders/{name}")
async def place(name: str, request: Request) -> dict[str, str | int]:
    receipt = await request.app.state.producer.send(Message("orders", name.encode()))
    return {"message_id": receipt.message_id, "process": os.getpid()}


@app.get("/billed")
async def show() -> list[str]:
    return billed


app.include_router(router)
