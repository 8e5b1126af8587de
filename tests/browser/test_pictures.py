"""The pictures of docs/dashboard.md, of a shop at work; with ROQUET_PICTURES they are kept.

A font with Chinese characters should be installed, for the link to the other language.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from roquet import Message, Producer, PushConsumer, ReceivedMessage, StartFrom, TopicReader
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.opening import open_lake
from roquet.testing.blocking import BlockingCluster
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.our_dashboard import OurDashboard

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.full("pictures of pages that are tested elsewhere"),
]

PICTURES = Path(__file__).parents[2] / "docs/pictures"
MAKES_PICTURES = "ROQUET_PICTURES" in os.environ
# Long enough for charts to have a shape.
TRAFFIC_S = 60.0 if MAKES_PICTURES else 3.0
ORDER = (
    b'{"customer": "Ada", "items": [{"name": "coffee", "count": 2}, {"name": "cake", "count": 1}]}'
)


class Picture(NamedTuple):
    name: str
    path: str
    width: int = 1280
    theme: Literal["light", "dark"] = "light"


SHOWN = (
    Picture("overview", "/"),
    Picture("overview_narrow", "/", 390),
    Picture("topics_narrow_dark", "/topics", 390, "dark"),
    Picture("group_dark", "/groups/billing", theme="dark"),
    Picture("waiting", "/waiting"),
    Picture("pipelines", "/pipelines"),
    Picture("brokers", "/brokers"),
)


def test_the_pictures_of_the_documentation(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page has the path as it was given.
    monkeypatch.chdir(tmp_path)
    with open_lake(Path("lake"), LakeSettings()) as lake:
        for queue in range(4):
            lake.publish(staged_rows(lake, message_batch(queue, range(40))))
    with (
        BlockingCluster(brokers=2, replicas=1) as cluster,
        OurDashboard(tmp_path, cluster.name_server, "--lake", "lake") as served,
        shop(cluster),
    ):
        for each in SHOWN:
            take(browser, served.base, each, PICTURES if MAKES_PICTURES else tmp_path)


@contextmanager
def shop(cluster: BlockingCluster) -> Iterator[None]:
    """Orders are sent, billed and packed; some fail, some wait for their time."""
    for topic in ("orders", "payments", "reminders"):
        cluster.new_topic(topic, queues=4)
    billing = PushConsumer(cluster.name_server, "billing", bill, start_from=StartFrom.FIRST)
    billing.subscribe("orders")
    stock = PushConsumer(cluster.name_server, "stock", pack, start_from=StartFrom.FIRST)
    stock.subscribe("orders")
    stock.subscribe("payments")
    is_over = threading.Event()
    with (
        Producer(cluster.name_server, "shop") as producer,
        TopicReader(cluster.name_server) as reader,
        billing,
        stock,
    ):
        sender = threading.Thread(target=send_orders, args=(producer, is_over))
        sender.start()
        for hours in (1, 3, 5, 30, 50):
            for number in range(hours):
                delay = timedelta(hours=hours, minutes=number)
                producer.send(Message("reminders", ORDER), delay=delay)
        is_over.wait(TRAFFIC_S)
        # As a Spark query does.
        reader.commit("daily-report", dict.fromkeys(reader.queues("orders"), 20))
        try:
            yield
        finally:
            is_over.set()
            sender.join()


def send_orders(producer: Producer, is_over: threading.Event) -> None:
    number = 0
    while not is_over.wait(0.02):
        number += 1
        topic = "payments" if number % 3 == 0 else "orders"
        producer.send(Message(topic, ORDER, "new", (f"order-{number}",)))
        # Customers come in waves.
        if number % 400 > 250:
            is_over.wait(0.05)


def bill(message: ReceivedMessage) -> None:
    if int(message.keys[0].removeprefix("order-")) % 50 == 1:
        raise ConnectionError("the bank does not answer")


def pack(_: ReceivedMessage) -> None:
    # Slower than orders come, so that some wait.
    threading.Event().wait(0.03)


def take(browser: Browser, base: str, picture: Picture, directory: Path) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": 800},
        color_scheme=picture.theme,
        locale="en-GB",
    )
    page = context.new_page()
    page.goto(base + picture.path)
    expect(page.locator("h1")).to_be_visible()
    if page.locator("[data-chart]").count():
        expect(page.locator(".chart canvas").first).to_be_visible()
    page.screenshot(path=directory / f"dashboard_{picture.name}.png")
    context.close()
