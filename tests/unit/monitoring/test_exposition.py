"""The text that Prometheus reads, read by its own library."""

import pytest

from roquet.histogram import Histogram
from roquet.monitoring.exposition import Exposition, Metric, MetricKind
from tests.support.scraped import scraped

COUNTER = Metric("things_total", MetricKind.COUNTER, "Things.", ("kind",))
GAUGE = Metric("level", MetricKind.GAUGE, "How high.")
TIMES = Metric("times_seconds", MetricKind.HISTOGRAM, "How long.")


def test_values_are_written_with_their_kind_and_labels() -> None:
    exposition = Exposition()
    exposition.add(COUNTER, {"kind": "a"}, 3)
    exposition.add(GAUGE, {}, 0.25)
    assert exposition.text() == (
        b"# HELP things_total Things.\n"
        b"# TYPE things_total counter\n"
        b'things_total{kind="a"} 3\n'
        b"# HELP level How high.\n"
        b"# TYPE level gauge\n"
        b"level 0.25\n"
    )


def test_values_of_several_servers_stand_together() -> None:
    exposition = Exposition()
    for server in ("one", "two"):
        exposition.add(COUNTER, {"kind": server}, 1)
        exposition.add(GAUGE, {"node": server}, 2)
    text = exposition.text()
    assert text.count(b"# TYPE") == 2
    assert scraped(text).values["things_total"] == [({"kind": "one"}, 1), ({"kind": "two"}, 1)]


@pytest.mark.parametrize("name", ['"', "\\", "\n", 'a"} 1\nevil_total{b="', "ü", "\\n", "%DLQ%x"])
def test_a_label_is_what_it_was_whatever_is_in_it(name: str) -> None:
    exposition = Exposition()
    exposition.add(COUNTER, {"kind": name}, 1)
    assert scraped(exposition.text()).values == {"things_total": [({"kind": name}, 1)]}


def test_what_is_no_text_does_not_end_the_page() -> None:
    exposition = Exposition()
    exposition.add(COUNTER, {"kind": "\ud800"}, 1)
    assert scraped(exposition.text()).all("things_total") == [1]


def test_a_histogram_has_its_bounds_and_sums() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.25, 0.75, 7.0):
        histogram.add(value)
    exposition = Exposition()
    exposition.add_histogram(TIMES, {"node": "a"}, histogram)
    found = scraped(exposition.text())
    bounds = [(labels["le"], value) for labels, value in found.values["times_seconds_bucket"]]
    assert bounds == [("0.5", 1), ("1", 2), ("+Inf", 3)]
    assert found.value("times_seconds_sum", node="a") == 8.0
    assert found.value("times_seconds_count", node="a") == 3
