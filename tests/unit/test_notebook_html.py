"""What notebooks show of reports: well-formed, escaped, and bounded."""

import inspect
import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import Row

from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.queue_ref import QueueRef
from roquet.notebook_html import ROWS_SHOWN_MAX, Point, line_svg, report_html
from roquet.pipeline import jobs
from roquet.pipeline.jobs.compact import CompactReport
from roquet.pipeline.jobs.forget import ForgetReport, ForgottenRows
from roquet.pipeline.queue_offsets import StreamOffset
from roquet.pipeline.watching.positions import QueryLag, lag_of

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def texts(html: str) -> list[str]:
    """Of all elements, in their order; the HTML is well-formed."""
    return [text for text in ET.fromstring(f"<p>{html}</p>").itertext() if text.strip()]  # noqa: S314


def widths(html: str) -> list[float]:
    found = ET.fromstring(f"<p>{html}</p>").iter("{http://www.w3.org/2000/svg}rect")  # noqa: S314
    return [float(each.attrib["width"]) for each in found]


def test_a_report_is_a_table_of_its_facts() -> None:
    report = CompactReport(2, 1234567, 9, 2, 100, 90, 1234567, 11, is_complete=True)
    found = texts(report._repr_html_())
    assert found[:4] == ["hours", "2", "messages", "1,234,567"]
    assert found[found.index("is_complete") + 1] == "True"


def test_lists_of_a_report_are_tables() -> None:
    rows = [ForgottenRows("messages", 3, 1, 9, 0, 0, 0), ForgottenRows("latest", 1, 1, 2, 0, 0, 0)]
    found = texts(ForgetReport(rows, 7)._repr_html_())
    assert found[:4] == ["files_removed", "7", "tables", "table"]
    assert found.count("messages") == found.count("latest") == 1


def test_names_and_values_cannot_be_markup() -> None:
    class Named(NamedTuple):
        text: str
        rows: list[Row]

    html = report_html(Named("<script>alert(1)</script>", [Row(tag="<b>")]))
    assert "<script" not in html
    assert "<b>" not in html
    assert texts(html) == ["text", "<script>alert(1)</script>", "rows", "tag", "<b>"]


def test_only_the_first_rows_are_shown() -> None:
    class Listed(NamedTuple):
        names: list[str]

    found = texts(report_html(Listed([str(each) for each in range(ROWS_SHOWN_MAX + 7)])))
    assert found[-1] == "and 7 more"
    assert len(found) == ROWS_SHOWN_MAX + 3


@pytest.mark.parametrize("module", [each.name for each in iter_modules(jobs.__path__)])
def test_every_report_of_a_job_shows_itself(module: str) -> None:
    members = vars(import_module(f"{jobs.__name__}.{module}")).values()
    for each in members:
        if inspect.isclass(each) and each.__name__.endswith("Report"):
            # Parts of others are shown by these.
            assert hasattr(each, "_repr_html_") or each.__name__ == "SideReport", each


def test_the_lag_of_a_group_is_a_bar_for_each_queue() -> None:
    def queue(number: int, consumed: int | None) -> QueueProgress:
        ref = QueueRef("orders", "broker-a", number)
        return QueueProgress(ref, 100, consumed, consumed, NOON, timedelta(seconds=5))

    html = GroupProgress("billing", (queue(0, 60), queue(1, 80), queue(2, None)), 1.0)._repr_html_()
    full, half, none = widths(html)
    assert (full, none) == (half * 2, 0)
    assert "unknown" in texts(html)
    assert widths(GroupProgress("new", (), 0.0)._repr_html_()) == []


def progress(second: int, lag: int) -> dict[str, Any]:
    """As Spark reports a micro-batch."""
    queue = QueueRef("orders", "broker-a", 0)
    at, latest = (json.dumps(StreamOffset({queue: each}).to_json()) for each in (10, 10 + lag))
    source = {"startOffset": at, "endOffset": at, "latestOffset": latest}
    return {"timestamp": f"2026-11-16T12:00:{second:02}.000Z", "sources": [source]}


def test_the_lag_of_a_query_is_a_line_over_time() -> None:
    found = lag_of("orders", [progress(0, 40), progress(10, 20), progress(20, 0)])
    assert [each.value for each in found.points] == [40, 20, 0]
    html = found._repr_html_()
    [line] = ET.fromstring(f"<p>{html}</p>").iter("{http://www.w3.org/2000/svg}polyline")  # noqa: S314
    places = [tuple(map(float, each.split(","))) for each in line.attrib["points"].split()]
    assert places[0][0] < places[1][0] < places[2][0]
    assert places[0][1] < places[1][1] < places[2][1]
    assert {"12:00:00", "12:00:20", "40"} <= set(texts(html))


def test_a_query_that_has_reported_nothing_has_no_line() -> None:
    assert "<svg" not in QueryLag("orders", [])._repr_html_()
    assert "<polyline" in line_svg([Point(NOON, 0.0)])
