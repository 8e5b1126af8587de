"""Durations as people read them."""

from datetime import timedelta


def span_text(span: timedelta) -> str:
    """Its two largest units: "3 min 20 s"."""
    if timedelta() < abs(span) < timedelta(seconds=1):
        return f"{round(span / timedelta(milliseconds=1))} ms"
    seconds = int(span.total_seconds())
    if abs(seconds) < 60:
        return f"{seconds} s"
    minutes, hours = abs(seconds) // 60, abs(seconds) // 3600
    sign = "-" if seconds < 0 else ""
    if minutes < 60:
        return f"{sign}{minutes} min {abs(seconds) % 60} s"
    if hours < 48:
        return f"{sign}{hours} h {minutes % 60} min"
    return f"{sign}{hours // 24} d {hours % 24} h"
