"""What `roquet doctor` reports: findings with severity and remedy, one line for each cause."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from roquet.client.admin.missing import MissingBroker

# Names in the line of a cause.
_EXAMPLES_MAX: Final = 3
# Texts start with the verb of one subject.
_OF_MANY: Final = {"has": "have", "is": "are", "does": "do"}


class Severity(Enum):
    """The worst comes first."""

    PROBLEM = "problem"
    WARNING = "warning"
    FINE = "fine"

    def is_at_least(self, other: "Severity") -> bool:
        order = list(Severity)
        return order.index(self) <= order.index(other)


class Finding(NamedTuple):
    severity: Severity
    # Kind and name, such as "topic orders".
    subject: str
    text: str
    remedy: str | None = None
    # What it has in common with findings about others of its kind; None if that is the text.
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Findings of one cause."""

    severity: Severity
    count: int
    subject: str
    text: str
    remedy: str | None


def lines_of(found: Iterable[Finding]) -> list[Line]:
    """The worst first. What is fine is not summed up."""
    by_cause: defaultdict[tuple[Severity, str, str], list[Finding]] = defaultdict(list)
    for each in found:
        kind = each.subject if each.severity is Severity.FINE else _kind_and_name(each)[0]
        by_cause[each.severity, kind, each.cause or each.text].append(each)
    lines = [_line(cause, each) for (_, _, cause), each in by_cause.items()]
    return sorted(lines, key=lambda each: list(Severity).index(each.severity))


def summary(lines: Sequence[Line]) -> str:
    """ "1 problem, 3 warnings"."""
    counts = [(each, count_of(lines, each)) for each in (Severity.PROBLEM, Severity.WARNING)]
    return ", ".join(f"{count} {each.value}{'s' * (count != 1)}" for each, count in counts)


def count_of(lines: Sequence[Line], severity: Severity) -> int:
    return sum(each.severity is severity for each in lines)


def not_asked(subject: str, missing: Sequence[MissingBroker]) -> Finding:
    """What was not found may be at a broker that did not answer."""
    names = ", ".join(each.broker_name for each in missing)
    text = f"not found at the brokers that answered; {names} may have it"
    return Finding(Severity.PROBLEM, subject, text, f"repair first what is wrong with {names}")


def _line(cause: str, found: Sequence[Finding]) -> Line:
    first = found[0]
    if len(found) == 1:
        return Line(first.severity, 1, first.subject, first.text, first.remedy)
    names = [_kind_and_name(each)[1] for each in found]
    more = f" and {len(names) - _EXAMPLES_MAX:,} more" if len(names) > _EXAMPLES_MAX else ""
    verb, space, rest = cause.partition(" ")
    text = f"{_OF_MANY.get(verb, verb)}{space}{rest}: {', '.join(names[:_EXAMPLES_MAX])}{more}"
    is_one_remedy = len({each.remedy for each in found}) == 1
    remedy = first.remedy if is_one_remedy else f"for each: {first.remedy}"
    subject = f"{len(found):,} {_kind_and_name(first)[0]}s"
    return Line(first.severity, len(found), subject, text, remedy)


def _kind_and_name(finding: Finding) -> tuple[str, str]:
    kind, _, name = finding.subject.rpartition(" ")
    return kind, name
