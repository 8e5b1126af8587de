"""Actions in a real browser really act; and a broker that is gone does not blank a page."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.client.config import Credentials
from roquet.dashboard.prometheus import step_of
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.accounts import ADMIN, accounts_file
from tests.support.apache import ApacheCluster
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurCluster
from tests.support.our_dashboard import OurDashboard
from tests.support.real_prometheus import RealPrometheus, needs_prometheus

pytestmark = pytest.mark.xdist_group("browser")


def test_a_topic_is_created_sent_to_and_deleted(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(f"{served.base}/topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Topic made-here is created.")
    page.get_by_text("Send a test message").click()
    page.get_by_label("Body").fill("hello <b>you</b>")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("is sent to made-here")
    assert [each.body for each in cluster.received("made-here")] == [b"hello <b>you</b>"]
    page.get_by_text("Delete the topic").click()
    page.get_by_label("Type its name").fill("made-here")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Topic made-here is deleted.")
    with Admin(cluster.name_server) as admin:
        assert "made-here" not in admin.topics()


def test_a_group_is_moved_after_a_preview_and_paused(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(f"{served.base}/groups/warehouse")
    page.get_by_text("Move the group (reset)").click()
    page.locator("select[name=to]").select_option("first")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("Messages read again")
    page.get_by_role("button", name="Move it").click()
    expect(page.get_by_role("status")).to_contain_text("Group warehouse is moved")
    with Admin(cluster.name_server) as admin:
        assert admin.progress("warehouse", topic="orders").lag == 5
        page.get_by_role("button", name="Pause the group").click()
        expect(page.get_by_role("status")).to_contain_text("gets no more messages")
        assert not any(each.is_enabled for each in admin.group_settings("warehouse").values())
        page.get_by_role("button", name="Resume the group").click()
        expect(page.get_by_role("status")).to_contain_text("gets messages again")
    page.goto(f"{served.base}/audit")
    expect(page.locator("tbody")).to_contain_text("pause group warehouse")


def test_dead_letters_are_sent_again_after_a_dry_run(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    before = len(cluster.received("orders"))
    page.goto(f"{served.base}/dead-letters/billing")
    page.get_by_label("Tick all").check()
    page.get_by_role("button", name="Send again").click()
    expect(page.locator("h1")).to_have_text("Send again")
    assert len(cluster.received("orders")) == before
    page.get_by_role("button", name="Send them").click()
    expect(page.get_by_role("status")).to_contain_text("were sent again")
    assert len(cluster.received("orders")) == before + 1


def test_a_setting_is_changed_and_refused_in_words(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(f"{served.base}/brokers")
    page.get_by_text("Change a setting").click()
    page.locator("select[name=broker]").select_option("broker-a")
    page.get_by_label("Setting", exact=True).fill("longPollingEnable")
    page.get_by_label("Value", exact=True).fill("false")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("longPollingEnable is changed")
    with Admin(cluster.name_server) as admin:
        found = {
            each.broker_name: admin.broker_config(each.address)["longPollingEnable"]
            for each in admin.brokers(with_state=False)
        }
    assert found == {"broker-a": "false", "broker-b": "true"}
    row = page.get_by_role("row").filter(has_text="longPollingEnable").last
    expect(row).to_contain_text("differs")
    page.get_by_text("Change a setting").click()
    page.get_by_label("Setting", exact=True).fill("longPollingEnable")
    page.get_by_label("Value", exact=True).fill("perhaps")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("perhaps")


def test_an_account_is_created_changed_and_deleted(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROQUET_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("ROQUET_SECRET_KEY", ADMIN.secret_key)
    settings = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path))}
    with (
        BlockingCluster(settings=settings) as cluster,
        OurDashboard(tmp_path / "ours", cluster.name_server, "--allow-changes") as served,
        Admin(cluster.name_server, credentials=Credentials(*ADMIN)) as admin,
    ):
        (broker,) = admin.brokers(with_state=False)
        page.goto(f"{served.base}/brokers")
        page.get_by_text("Create an account").click()
        page.get_by_label("Access key", exact=True).fill("shop-account")
        page.get_by_label("Secret", exact=True).fill("shop-secret")
        page.get_by_label("Rights for topics").fill("orders=PUB")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Account shop-account is created.")
        expect(page.locator("main")).not_to_contain_text("shop-secret")
        page.get_by_text("Change the account").click()
        page.get_by_label("Rights for groups").fill("billing=SUB")
        page.get_by_role("button", name="Change", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Account shop-account is changed.")
        found = admin.broker_accounts(broker.address).accounts["shop-account"]
        assert (found.topic_rights, found.group_rights) == ({"orders": "PUB"}, {"billing": "SUB"})
        page.get_by_text("Delete the account").click()
        page.get_by_label("Type its access key").fill("shop-account")
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Account shop-account is deleted.")
        assert "shop-account" not in admin.broker_accounts(broker.address).accounts


def test_a_broker_that_stops_while_one_looks_is_named_and_returns(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(served.base)
    expect(page.locator(".set")).to_have_count(2)
    cluster.stop_broker("broker-b")
    expect(page.locator(".set")).to_have_count(1)
    expect(page.locator("h1")).to_have_text("Overview")
    cluster.start_broker("broker-b")
    expect(page.locator(".set")).to_have_count(2)


def test_without_name_servers_pages_show_what_was_known(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(f"{served.base}/topics")
    cluster.stop_name_server()
    try:
        expect(page.get_by_role("alert")).to_contain_text("The cluster does not answer")
        expect(page.get_by_role("link", name="payments")).to_be_visible()
    finally:
        cluster.start_name_server()
    expect(page.get_by_role("alert")).to_have_count(0)


@needs_prometheus
@pytest.mark.full("waits for scrapes of a real Prometheus; its answers are covered by unit tests")
def test_charts_show_what_a_real_prometheus_has_from_before(tmp_path: Path, page: Page) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: []")
    with OurCluster(tmp_path / "cluster", "--http", "0") as cluster:
        target = cluster.ready_line.strip().rpartition(" http=")[2]
        with Producer(cluster.name_server, "shop") as producer:
            producer.send(Message("orders", b"one coffee"))
        with TopicReader(cluster.name_server) as reader:
            reader.commit("report", dict.fromkeys(reader.queues("orders"), 0))
        with RealPrometheus(tmp_path, target, rules) as prometheus:
            lag = "rocketmq_consumer_lag_messages"
            wait_until(lambda: 1 in prometheus.values(lag))
            # Charts have points of whole steps.
            step_s = step_of(600.0)
            started_s = time.time()
            wait_until(lambda: time.time() // step_s > started_s // step_s + 1)
            words = ("--prometheus", f"http://{prometheus.address}")
            with OurDashboard(tmp_path / "ours", cluster.name_server, *words) as served:
                page.goto(f"{served.base}/groups/report")
                page.get_by_role("button", name="10m").first.click()
                expect(page.locator(".chart canvas").first).to_be_visible()
                expect(page.locator(".chart .problem").first).to_be_hidden()
                chart = page.request.get(f"{served.base}/charts/group?name=report&what=lag&span=7d")
                times, values = chart.json()["points"]
                assert times[0] < started_s + 2 * step_of(7 * 86400.0)
                assert max(filter(None, values)) == 1
                chart = page.request.get(
                    f"{served.base}/charts/group?name=report&what=lag&span=10m"
                )
                assert chart.json()["points"][0][0] < started_s + 2 * step_s
                assert chart.json()["problem"] is None


@pytest.mark.java
@pytest.mark.full("starts a JVM; other pages are covered with our brokers")
@pytest.mark.parametrize("version", list(ApacheVersion))
def test_pages_of_an_apache_cluster_say_what_is_not_known(
    tmp_path: Path, page: Page, version: ApacheVersion
) -> None:
    with (
        ApacheCluster(version, tmp_path / "apache") as apache,
        OurDashboard(tmp_path / "ours", apache.name_server.address, "--allow-changes") as served,
    ):
        page.goto(f"{served.base}/topics")
        page.get_by_text("Create a topic").click()
        page.get_by_label("Name", exact=True).fill("orders")
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("status")).to_have_text("Topic orders is created.")
        page.get_by_text("Send a test message").click()
        page.get_by_label("Body").fill("hello")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("is sent to orders")
        page.goto(f"{served.base}/messages?topic=orders")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody a").click()
        expect(page.locator(".story")).to_contain_text("stored")
        for path in ("/", "/topics", "/topics/orders", "/groups", "/brokers", "/pipelines"):
            page.goto(served.base + path)
            expect(page.locator("h1")).to_be_visible()
        page.goto(f"{served.base}/waiting")
        expect(page.locator("main")).to_contain_text("only Roquet brokers report it")
