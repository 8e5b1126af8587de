"""Reports as notebooks show them: tables, bars and lines, in HTML that needs nothing else. Pure.

Jupyter and its kin ask an object for `_repr_html_`; programs and terminals see what they saw.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final, NamedTuple

# A browser should not get the rows of a year.
ROWS_SHOWN_MAX: Final = 100
_WIDTH: Final = 640
_HEIGHT: Final = 160
_BAR_HEIGHT: Final = 18
_LABEL_WIDTH: Final = 240
_COLOR: Final = "#1f77b4"


class Bar(NamedTuple):
    """`value` is None if it is unknown."""

    label: str
    value: float | None


class Point(NamedTuple):
    at: datetime
    value: float


def report_html(report: tuple[Any, ...]) -> str:
    """Of a NamedTuple: a table of its values, and one of each of its lists."""
    facts: dict[str, object] = {}
    tables: list[str] = []
    for name, value in zip(_names(report), report, strict=True):
        if isinstance(value, tuple) and _names(value):
            tables.append(f"<h4>{escape(name)}</h4>{report_html(value)}")
        elif isinstance(value, list | tuple):
            if value:
                columns = _names(value[0]) or [name]
                tables.append(f"<h4>{escape(name)}</h4>{rows_html(columns, value)}")
        else:
            facts[name] = value
    return facts_html(facts) + "".join(tables)


def facts_html(facts: Mapping[str, object]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th>{_cell(each)}</tr>" for name, each in facts.items())
    return f"<table>{rows}</table>" if rows else ""


def rows_html(columns: Sequence[str], rows: Sequence[Sequence[object] | object]) -> str:
    """The first rows; the number of others is below them."""
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join(f"<tr>{''.join(map(_cell, _values(row)))}</tr>" for row in rows[:ROWS_SHOWN_MAX])
    left = len(rows) - ROWS_SHOWN_MAX
    more = f"<p>and {left} more</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def bars_svg(bars: Sequence[Bar]) -> str:
    """One below the other; the longest is as wide as the picture."""
    shown = bars[:ROWS_SHOWN_MAX]
    most = max((each.value or 0 for each in shown), default=0) or 1
    parts = []
    for index, (label, value) in enumerate(shown):
        y = index * _BAR_HEIGHT
        width = (value or 0) / most * (_WIDTH - _LABEL_WIDTH - 80)
        text = "unknown" if value is None else f"{value:g}"
        parts.append(
            f'<text x="{_LABEL_WIDTH - 6}" y="{y + 13}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{_LABEL_WIDTH}" y="{y + 3}" width="{width:.1f}" height="12"'
            f' fill="{_COLOR}"/>'
            f'<text x="{_LABEL_WIDTH + width + 6:.1f}" y="{y + 13}">{text}</text>'
        )
    return _svg(len(shown) * _BAR_HEIGHT, parts)


def line_svg(points: Sequence[Point]) -> str:
    """Over time, from 0 on."""
    if not points:
        return ""
    start_s, end_s = points[0].at.timestamp(), points[-1].at.timestamp()
    most = max(each.value for each in points) or 1
    span_s = end_s - start_s or 1
    low = _HEIGHT - 20
    places = " ".join(
        f"{60 + (each.at.timestamp() - start_s) / span_s * (_WIDTH - 70):.1f},"
        f"{low - each.value / most * (low - 10):.1f}"
        for each in points
    )
    last = f"{points[-1].at:%H:%M:%S}"
    parts = [
        f'<polyline points="{places}" fill="none" stroke="{_COLOR}" stroke-width="2"/>',
        f'<text x="54" y="16" text-anchor="end">{most:g}</text>',
        f'<text x="54" y="{low}" text-anchor="end">0</text>',
        f'<text x="60" y="{_HEIGHT - 4}">{points[0].at:%H:%M:%S}</text>',
        f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 4}" text-anchor="end">{last}</text>',
    ]
    return _svg(_HEIGHT, parts)


def _svg(height: int, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' font-family="sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _names(value: object) -> Sequence[str]:
    """Of a NamedTuple, or of a row of Spark; none of anything else."""
    return getattr(value, "_fields", None) or getattr(value, "__fields__", None) or ()


def _values(row: Sequence[object] | object) -> Sequence[object]:
    return row if isinstance(row, tuple | list) else (row,)


def _cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "" if value is None else f"{value:,}" if is_number else str(value)
    align = ' style="text-align:right"' if is_number else ""
    return f"<td{align}>{escape(text)}</td>"
