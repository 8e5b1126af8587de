"""A real Chromium, a cluster of ours with messages of all kinds, and its dashboard.

Where Debian's `chromium` is missing, all of this is skipped.
"""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from roquet.client.blocking.consumers import PushConsumer
from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.outcome import DeadLetter
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.our_dashboard import OurDashboard
from tests.support.written_lakes import new_lake, piece, publish

CHROMIUM = shutil.which("chromium")
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
BODIES = (
    f'{{"customer": "{HOSTILE}", "items": [1, 2]}}'.encode(),
    HOSTILE.encode(),
    b"\xff\xfe broken \x80",
    "right \u202eto\u202c left".encode(),
    b"x" * (3 << 20),
)


# Playwright keeps an event loop running in its thread: it must be gone before other tests begin.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: scripts/need_tools.sh")
    with sync_playwright() as playwright:
        # As root, which tests in containers run as, Chromium has no sandbox.
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    """Topic orders, read by billing, which fails on some of it, and once by warehouse."""

    def bill(message: ReceivedMessage) -> None:
        if message.body == HOSTILE.encode():
            raise DeadLetter(HOSTILE)

    with BlockingCluster(brokers=2) as running:
        running.new_topic("orders", queues=2)
        running.new_topic("payments", queues=2)
        with Producer(running.name_server, "shop") as producer:
            for number, body in enumerate(BODIES):
                producer.send(Message("orders", body, "<b>", (f"order-{number}",)))
        for group in ("billing", "warehouse"):
            consumer = PushConsumer(running.name_server, group, bill, start_from=StartFrom.FIRST)
            consumer.subscribe("orders")
            with consumer:
                running.consumed(group, allow_dead_letters=True)
        # As a Spark query does.
        with TopicReader(running.name_server) as reader:
            reader.commit("report", dict.fromkeys(reader.queues("orders"), 1))
        yield running


@pytest.fixture(scope="module")
def served(
    cluster: BlockingCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurDashboard]:
    directory = tmp_path_factory.mktemp("dashboard")
    lake = tmp_path_factory.mktemp("lakes") / "orders"
    publish(new_lake(lake), piece("orders", 0, 0, 1))
    words = ("--allow-changes", "--lake", str(lake), "--lake", str(lake.with_name("missing")))
    with OurDashboard(directory, cluster.name_server, *words) as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 800})
    found.set_default_timeout(20_000)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Nothing that a browser complains about, code that was refused among it, is left unseen."""
    found = context.new_page()
    complaints: list[str] = []
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    yield found
    assert not complaints
