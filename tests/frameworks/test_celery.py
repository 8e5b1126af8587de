"""Celery on RocketMQ: real prefork workers in processes, against real servers."""

import importlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import pools

from roquet import Admin
from roquet.kombu import queue_topic
from tests.support.celery_worker import CeleryWorker, environment
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("celery")]

RESULT_TIMEOUT_S = 30.0
QUICK = ("--without-gossip", "--without-mingle")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("celery")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[OurCluster]:
    with OurCluster(directory / "servers") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shop(cluster: OurCluster, directory: Path) -> Iterator[Any]:
    """The application, as a web server would have it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(directory, cluster.name_server).items():
            patch.setenv(name, value)
        shop = importlib.import_module("tests.support.celery_shop")
        yield shop
        pools.reset()


@pytest.fixture(scope="module")
def worker(shop: Any, cluster: OurCluster, directory: Path) -> Iterator[CeleryWorker]:
    with CeleryWorker("one", directory, cluster.name_server) as worker:
        yield worker


def lines(directory: Path, start: str) -> list[str]:
    path = directory / "done.txt"
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines() if line.startswith(start)]


def test_tasks_run_and_queues_route(shop: Any, worker: CeleryWorker, directory: Path) -> None:
    results = [shop.add.delay(number, 1) for number in range(20)]
    resized = shop.resize.delay("cat.png")
    found = [result.get(timeout=RESULT_TIMEOUT_S) for result in results]
    assert found == list(range(1, 21))
    assert resized.get(timeout=RESULT_TIMEOUT_S) == "cat.png"
    # By its exchange, whose binding only the worker has declared.
    shop.resize.apply_async(("dog.png",), exchange="media", routing_key="images.small.jpg")
    wait_until(lambda: "resized dog.png" in lines(directory, "resized"))


def test_a_worker_of_another_process_answers_to_a_ping(shop: Any, worker: CeleryWorker) -> None:
    assert shop.app.control.inspect(timeout=10, limit=1).ping() == {worker.name: {"ok": "pong"}}


def test_transient_queues_leave_no_topics_and_groups(
    shop: Any, worker: CeleryWorker, cluster: OurCluster
) -> None:
    assert shop.app.control.ping(timeout=10, limit=1)
    with Admin(cluster.name_server) as admin:
        topics = {each for each in admin.topics() if not each.startswith("kombu-exchange")}
        groups = set(admin.groups())
    assert topics == groups == {"shop", queue_topic("images.big")}


def test_a_countdown_is_a_timer_of_the_broker(
    shop: Any, worker: CeleryWorker, directory: Path
) -> None:
    sent_s = time.time()
    shop.stamp.apply_async(("late",), countdown=3)
    shop.stamp.apply_async(("soon",))
    wait_until(lambda: lines(directory, "stamp soon"))
    # The worker does not have it before it is due.
    assert shop.app.control.inspect(timeout=10, limit=1).scheduled() == {worker.name: []}
    wait_until(lambda: lines(directory, "stamp late"))
    late_s = float(lines(directory, "stamp late")[0].split()[-1])
    assert 3 <= late_s - sent_s < 20
    assert float(lines(directory, "stamp soon")[0].split()[-1]) < late_s


def test_a_task_is_retried(shop: Any, worker: CeleryWorker, directory: Path) -> None:
    assert shop.flaky.delay("one").get(timeout=RESULT_TIMEOUT_S) == 2
    assert lines(directory, "try one") == ["try one 0", "try one 1", "try one 2"]


def test_a_killed_worker_loses_no_late_acknowledged_task(
    shop: Any, worker: CeleryWorker, cluster: OurCluster, directory: Path
) -> None:
    with CeleryWorker("doomed", directory, cluster.name_server, *QUICK, "-Q", "kills") as doomed:
        shop.slow.apply_async(("orphan",), queue="kills")
        wait_until(lambda: lines(directory, "started orphan"))
        doomed.kill()
    (directory / "let-orphan").touch()
    shop.app.control.add_consumer("kills", destination=[worker.name])
    wait_until(lambda: lines(directory, "ended orphan"))
    assert len(lines(directory, "started orphan")) == 2


def test_a_worker_that_is_shut_down_finishes_its_tasks_and_returns_the_others(
    shop: Any, worker: CeleryWorker, cluster: OurCluster, directory: Path
) -> None:
    names = [f"warm-{number}" for number in range(6)]
    with CeleryWorker("leaving", directory, cluster.name_server, *QUICK, "-Q", "warm") as leaving:
        for name in names:
            shop.slow.apply_async((name,), queue="warm")
        wait_until(lambda: len(lines(directory, "started warm")) == 2)
        shop.app.control.shutdown(destination=[leaving.name])
        wait_until(lambda: "Warm shutdown" in leaving.log or "shutdown" in leaving.log)
        for name in names:
            (directory / f"let-{name}").touch()
        assert leaving.wait() == 0
    shop.app.control.add_consumer("warm", destination=[worker.name])
    wait_until(lambda: len(lines(directory, "ended warm")) == 6)
    assert len(lines(directory, "started warm")) == 6


def test_a_queue_can_be_counted_and_purged(shop: Any) -> None:
    for number in range(5):
        shop.add.apply_async((number, 1), queue="unread")
    with shop.app.connection_for_read() as connection:
        queue = shop.app.amqp.queues["unread"](connection.default_channel)
        assert queue.queue_declare(passive=True).message_count == 5
        assert queue.purge() == 5
        assert queue.queue_declare(passive=True).message_count == 0
