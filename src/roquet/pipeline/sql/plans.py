"""What the plan of a query shows of its scans: columns that are used, conditions on them.

DuckDB prints conditions as SQL. What is not understood here is no condition: then more is read than
needed, and the engine, which evaluates all of them again, has the same rows.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from roquet.pipeline.limits import Condition, Test

# Columns whose conditions limit what is read.
_LIMITING: Final = ("topic", "brokerName", "queueId", "queueOffset", "tags", "storeTimestamp")
# Names of SQL are the same in any case.
_LIMITING_FOLDED: Final = frozenset(map(str.lower, _LIMITING))
_SCAN: Final = "PYTHON_ARROW_SCAN"
_FILTER: Final = "FILTER"
_TEXT: Final = r"'(?:[^']|'')*'"
_VALUE: Final = rf"-?\d+|{_TEXT}(?:::TIMESTAMP WITH TIME ZONE)?"
_COMPARISON: Final = re.compile(rf"(?P<column>\w+) (?P<sign>=|!=|<|<=|>|>=) (?P<value>{_VALUE})")
_TESTS: Final = {
    "=": Test.EQUAL,
    "!=": Test.EQUAL,
    "<": Test.LESS,
    "<=": Test.AT_MOST,
    ">": Test.GREATER,
    ">=": Test.AT_LEAST,
}
_PART: Final = re.compile(rf"{_TEXT}|[()]| AND | OR |[^'() ]+| ")


def projected(plan: Any) -> set[str]:
    """The columns that the scans of a plan project, by its JSON."""
    return {name for node in _nodes(plan) for name in _lines(node, "Projections")}


def conditions_of_scan(plan: Any, syntax: Any) -> list[Condition]:
    """What every row that is used of the only scan meets; none if there are several scans.

    `plan` is one that leaves conditions above its scans, `syntax` the statement as DuckDB parsed
    it. A filter names columns as the statement does, so no column may have the name of another.
    """
    nodes = list(_nodes(plan))
    scan_count = sum(node.get("name") == _SCAN for node in nodes)
    if scan_count != 1 or _may_rename(syntax):
        return []
    found: list[Condition] = []
    above: list[str] = []
    for node in nodes:
        match node.get("name"):
            case name if name == _FILTER:
                above.append("\n".join(_lines(node, "Expression")))
            case name if name == _SCAN:
                found += (each for text in above for each in _conditions(text))
            case _:
                above.clear()
    return found


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Parents before their children."""
    if isinstance(plan, list):
        for each in plan:
            yield from _nodes(each)
    else:
        yield plan
        yield from _nodes(plan.get("children", []))


def _lines(node: dict[str, Any], name: str) -> list[str]:
    """DuckDB makes a list of a text with more than one line."""
    value = node.get("extra_info", {}).get(name, [])
    return [value] if isinstance(value, str) else value


def _may_rename(syntax: Any) -> bool:
    """Whether a limiting column is named anywhere but where its values are used."""
    match syntax:
        case dict():
            return any(
                _may_rename(key) or _may_rename(value)
                for key, value in syntax.items()
                if key != "column_names"
            )
        case list():
            return any(map(_may_rename, syntax))
        case str():
            return syntax.lower() in _LIMITING_FOLDED
    return False


def _conditions(text: str) -> Iterator[Condition]:
    """Of a text that is true only if all of them are."""
    text = _bare(text)
    parts = _split(text, " AND ")
    if len(parts) > 1:
        for part in parts:
            yield from _conditions(part)
        return
    choices = [_comparison(_bare(part)) for part in _split(text, " OR ")]
    known = [each for each in choices if each is not None]
    if len(known) < len(choices):
        return
    if len(known) == 1:
        yield known[0]
    elif len({(each.column, each.test, each.is_negated) for each in known}) == 1:
        first = known[0]
        if first.test is Test.EQUAL and not first.is_negated:
            yield Condition(first.column, Test.IN, tuple(each.value for each in known))


def _comparison(text: str) -> Condition | None:
    found = _COMPARISON.fullmatch(text)
    if found is None or found["column"] not in _LIMITING:
        return None
    value = _value(found["value"])
    if value is None:
        return None
    sign = found["sign"]
    return Condition(found["column"], _TESTS[sign], value, is_negated=sign == "!=")


def _value(text: str) -> int | str | datetime | None:
    """None for a time that Python does not have."""
    quoted, _, kind = text.rpartition("::") if text.endswith("ZONE") else (text, "", "")
    if not quoted.startswith("'"):
        return int(quoted)
    bare = quoted[1:-1].replace("''", "'")
    if not kind:
        return bare
    try:
        return datetime.fromisoformat(bare)
    except ValueError:
        return None


def _bare(text: str) -> str:
    """Without parentheses around all of it."""
    while text.startswith("(") and _closed_at(text) == len(text):
        text = text[1:-1]
    return text


def _closed_at(text: str) -> int:
    """Where the first parenthesis is closed."""
    depth = 0
    for part in _PART.finditer(text):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if not depth:
            return part.end()
    return -1


def _split(text: str, word: str) -> Sequence[str]:
    """Between the words outside of parentheses and texts."""
    found, depth, start = [], 0, 0
    for part in _PART.finditer(text):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if part[0] == word and not depth:
            found.append(text[start : part.start()])
            start = part.end()
    return [*found, text[start:]]
