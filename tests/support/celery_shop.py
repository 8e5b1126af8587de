"""A Celery application, as users write one, for workers in processes of their own.

The environment has where it works: NAME_SERVER, SHOP_DIRECTORY for what tasks leave behind.
"""

import os
import time
from pathlib import Path

from celery import Celery
from kombu import Exchange, Queue

import roquet.kombu

DIRECTORY = Path(os.environ.get("SHOP_DIRECTORY", "."))

app = Celery("shop", broker=f"rocketmq://{os.environ.get('NAME_SERVER', '127.0.0.1:9876')}//")
app.conf.update(
    result_backend=f"file://{DIRECTORY}",
    task_default_queue="shop",
    task_queues=[
        Queue("shop"),
        Queue("images.big", Exchange("media", type="topic"), routing_key="images.#"),
    ],
    task_routes={"shop.resize": {"queue": "images.big", "routing_key": "images.resize"}},
    broker_transport_options={"queue_count": 4},
    broker_connection_retry_on_startup=True,
)

assert roquet.kombu.queue_topic("shop") == "shop"


def note(text: str) -> None:
    """Appends a line that tests read."""
    with (DIRECTORY / "done.txt").open("a") as file:
        file.write(f"{text}\n")


@app.task(name="shop.add")
def add(first: int, second: int) -> int:
    return first + second


@app.task(name="shop.resize")
def resize(name: str) -> str:
    note(f"resized {name}")
    return name


@app.task(name="shop.slow", acks_late=True)
def slow(name: str) -> None:
    """Ends when the test lets it."""
    note(f"started {name} {os.getppid()}")
    while not (DIRECTORY / f"let-{name}").exists():
        time.sleep(0.05)
    note(f"ended {name}")


@app.task(name="shop.stamp")
def stamp(name: str) -> None:
    note(f"stamp {name} {time.time()}")


@app.task(name="shop.flaky", bind=True, max_retries=3, default_retry_delay=1)
def flaky(self, name: str) -> int:  # type: ignore[no-untyped-def]
    note(f"try {name} {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry()
    return int(self.request.retries)
