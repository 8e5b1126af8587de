"""Many findings of one cause are one line."""

from roquet.client.admin.doctor.finding import Finding, Line, Severity, lines_of, summary

PROBLEM, WARNING, FINE = Severity


def test_findings_of_one_cause_are_counted_in_one_line_with_examples() -> None:
    found = [
        Finding(WARNING, f"topic t{index}", "writes are forbidden at a", "roquet broker writes")
        for index in range(500)
    ]
    assert lines_of(found) == [
        Line(
            WARNING,
            500,
            "500 topics",
            "writes are forbidden at a: t0, t1, t2 and 497 more",
            "roquet broker writes",
        )
    ]


def test_a_remedy_that_differs_is_an_example() -> None:
    found = [
        Finding(PROBLEM, f"group {name}", f"{count} messages wait", f"delete {name}", "lag")
        for name, count in (("g", 1), ("h", 2))
    ]
    assert lines_of(found) == [Line(PROBLEM, 2, "2 groups", "lag: g, h", "for each: delete g")]


def test_several_have_what_one_has() -> None:
    found = [
        Finding(WARNING, f"group {name}", f"has {count} dead letters", None, "has dead letters")
        for name, count in (("g", 1), ("h", 2))
    ]
    (line,) = lines_of(found)
    assert line.text == "have dead letters: g, h"


def test_a_cause_of_one_is_reported_as_it_is() -> None:
    found = [Finding(PROBLEM, "group g", "7 messages wait", "delete g", "lag")]
    assert lines_of(found) == [Line(PROBLEM, 1, "group g", "7 messages wait", "delete g")]


def test_the_worst_comes_first_and_what_is_fine_is_not_summed_up() -> None:
    found = [
        Finding(FINE, "broker a", "reachable"),
        Finding(FINE, "broker b", "reachable"),
        Finding(WARNING, "broker a", "its disk is full soon", "delete"),
        Finding(PROBLEM, "topic a", "its disk is full soon", "delete"),
    ]
    lines = lines_of(found)
    assert [(each.severity, each.subject) for each in lines] == [
        (PROBLEM, "topic a"),
        (WARNING, "broker a"),
        (FINE, "broker a"),
        (FINE, "broker b"),
    ]
    assert summary(lines) == "1 problem, 1 warning"
    assert summary(lines[2:]) == "0 problems, 0 warnings"


def test_a_severity_includes_what_is_worse() -> None:
    assert [each for each in Severity if each.is_at_least(WARNING)] == [PROBLEM, WARNING]
