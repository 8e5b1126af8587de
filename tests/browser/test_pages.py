"""Every page in a real browser: shown, readable, harmless, and following the cluster."""

import threading
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from roquet.client.blocking.admin import Admin
from roquet.client.blocking.consumers import PushConsumer
from roquet.client.group.start_offset import StartFrom
from roquet.client.received import ReceivedMessage
from roquet.testing.blocking import BlockingCluster
from tests.support.our_dashboard import OurDashboard

# One browser and one cluster for all.
pytestmark = pytest.mark.xdist_group("browser")

Theme = Literal["light", "dark"]

PAGES = (
    *("/", "/topics", "/topics/orders", "/groups", "/groups/billing", "/messages?topic=orders"),
    *("/dead-letters", "/dead-letters/billing", "/waiting", "/pipelines", "/brokers", "/audit"),
)
AXE = Path(__file__).with_name("axe.min.js")


@pytest.mark.full("the test below looks at all pages, once")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_both_widths_and_needs_no_more_than_200_kb(
    served: OurDashboard, page: Page, path: str
) -> None:
    answer = page.goto(served.base + path)
    assert answer is not None
    assert answer.status == 200
    assert len(answer.body()) < 200_000
    expect(page.locator("h1")).to_be_visible()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    "theme", ["light", pytest.param("dark", marks=pytest.mark.full("the other theme"))]
)
def test_axe_finds_nothing_serious(served: OurDashboard, browser: Browser, theme: Theme) -> None:
    # Its own script is foreign to the pages, which refuse such.
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, bypass_csp=True, color_scheme=theme
    )
    found = []
    page = context.new_page()
    for path in PAGES:
        page.goto(served.base + path)
        page.add_script_tag(path=AXE)
        for each in page.evaluate("async () => (await axe.run()).violations"):
            if each["impact"] in ("serious", "critical"):
                nodes = [node["html"][:200] for node in each["nodes"][:3]]
                found.append((path, each["id"], nodes))
    context.close()
    assert not found


def test_a_page_changes_with_the_cluster_without_being_asked_for(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    page.goto(f"{served.base}/topics")
    page.evaluate("window.isTheSame = true")
    with Admin(cluster.name_server) as admin:
        admin.create_topic("appeared")
        expect(page.get_by_role("link", name="appeared")).to_be_visible()
        assert page.evaluate("window.isTheSame")
        admin.delete_topic("appeared")
        expect(page.get_by_role("link", name="appeared")).to_have_count(0)


def test_hostile_bodies_and_keys_are_shown_and_never_run(served: OurDashboard, page: Page) -> None:
    page.goto(f"{served.base}/messages?topic=orders")
    places = [each.get_attribute("href") for each in page.locator("td.mono a").all()]
    assert len(places) >= 5
    shown = ""
    for place in places:
        for view in ("json", "text", "hex"):
            page.goto(f"{served.base}{place}?view={view}")
            shown += page.locator("main").inner_text()
            assert page.evaluate("typeof window.hacked") == "undefined"
    page.goto(f"{served.base}/dead-letters/billing")
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert "<script>window.hacked" in shown
    assert "right \N{MATHEMATICAL LEFT ANGLE BRACKET}202E" in shown
    assert "Only the beginning is shown." in shown


def test_queues_and_members_are_a_matrix_and_one_stack_is_shown(
    served: OurDashboard, cluster: BlockingCluster, page: Page
) -> None:
    def hold(_message: ReceivedMessage) -> None:
        is_over.wait(60)

    is_over = threading.Event()
    consumer = PushConsumer(cluster.name_server, "archive", hold, start_from=StartFrom.FIRST)
    consumer.subscribe("orders")
    with consumer:
        try:
            page.goto(f"{served.base}/groups/archive")
            expect(page.locator(".matrix .held").first).to_be_visible()
            expect(page.locator("tr#member-1")).to_contain_text("since")
            page.get_by_role("link", name="Stack 1").click()
            expect(page.locator("tr#member-1 + tr pre")).to_contain_text("is_over.wait")
        finally:
            is_over.set()


def test_queries_and_lakes_are_shown_with_what_is_left(served: OurDashboard, page: Page) -> None:
    page.goto(f"{served.base}/pipelines")
    expect(page.get_by_role("link", name="report")).to_be_visible()
    lake, missing = page.locator("section.card").all()
    expect(lake).to_contain_text("2026")
    expect(missing.get_by_role("alert")).to_contain_text("no lake in")


def test_a_json_body_is_searched_and_its_branches_fold(served: OurDashboard, page: Page) -> None:
    page.goto(f"{served.base}/messages?topic=orders&key=order-0")
    page.locator("td.mono a").first.click()
    tree = page.locator("#body-tree")
    page.get_by_label("Search in the body").fill("2")
    expect(tree.locator(".hit:visible")).to_have_count(3)
    page.get_by_label("Search in the body").fill("customer")
    expect(tree.locator(".hit:visible")).to_have_count(1)
    expect(tree.locator("p:visible")).to_have_count(1)
    page.get_by_label("Search in the body").fill("")
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(tree.locator("p:visible")).to_have_count(1)
    page.get_by_role("button", name="Unfold all").click()
    expect(tree.locator("p:visible")).to_have_count(3)


def test_times_of_forms_are_in_the_zone_of_the_reader(
    served: OurDashboard, browser: Browser
) -> None:
    context = browser.new_context(timezone_id="Asia/Shanghai", locale="en-GB")
    page = context.new_page()
    page.goto(f"{served.base}/messages?topic=orders&from=2026-01-01T20:00")
    expect(page.locator("input[name=from]")).to_have_value("2026-01-02T04:00")
    page.locator("input[name=to]").fill("2026-01-02T05:00")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**to=2026-01-01T21%3A00%3A00.000Z**")
    expect(page.locator("input[name=to]")).to_have_value("2026-01-02T05:00")
    context.close()


def test_the_theme_and_the_language_are_remembered(served: OurDashboard, page: Page) -> None:
    page.goto(served.base)
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("link", name="中文").click()
    page.goto(f"{served.base}/topics")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("h1")).to_have_text("主题")


def test_lists_are_filtered_and_sorted_by_keyboard(served: OurDashboard, page: Page) -> None:
    page.goto(f"{served.base}/topics")
    page.keyboard.press("/")
    page.keyboard.type("pay")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "filter=pay" in page.url
    page.get_by_role("link", name="Messages", exact=True).last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=-messages**")


def test_a_page_of_another_site_can_neither_frame_it_nor_send_its_forms(
    served: OurDashboard, browser: Browser
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.base)
    evil = (
        f"<iframe src='{served.base}/'></iframe>"
        f"<form method=post action='{served.base}/topics'><input name=name value=stolen></form>"
    )
    page.route(
        "http://evil.example/", lambda route: route.fulfill(body=evil, content_type="text/html")
    )
    page.goto("http://evil.example/")
    frame = page.frames[1]
    assert "Roquet" not in frame.content()
    with page.expect_navigation():
        page.evaluate("document.forms[0].submit()")
    assert "another site" in page.content()
    context.close()
