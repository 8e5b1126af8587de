"""Arguments that several jobs have, and the options of format `rocketmq` that they stand for."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import timedelta
from pathlib import Path
from typing import Any

from roquet.pipeline.options import kinds
from roquet.pipeline.options.declaring import Kind


def define_topics(parser: ArgumentParser) -> None:
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", help="The topic.")
    topics.add_argument("--topics", metavar="T,T", help="Several topics.")
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help="All topics whose whole name matches."
    )


def define_cluster(parser: ArgumentParser) -> None:
    """Where Spark runs, and what it needs there."""
    parser.add_argument(
        "--master", default="local[*]", help="Where Spark runs; this machine if left out."
    )
    parser.add_argument(
        "--archive",
        type=Path,
        metavar="FILE",
        help="What 'roquet spark package' wrote, for executors whose Python has no roquet.",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="A setting of Spark; may be given several times.",
    )


def define_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print one JSON object at the end.")


def size(text: str) -> int:
    """In bytes. Raises ArgumentTypeError."""
    return int(_read(kinds.size, text))


def time_span(text: str) -> timedelta:
    """Raises ArgumentTypeError."""
    span: timedelta = _read(kinds.duration, text)
    return span


def moment(text: str) -> str:
    """The same text, which names a moment. Raises ArgumentTypeError."""
    _read(kinds.moment_ms, text)
    return text


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _read(kind: Kind, text: str) -> Any:
    try:
        return kind.read(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not {error}") from None


def options_of(**values: object) -> dict[str, str]:
    """By the names that the format has for them, without those that were not given."""
    return {name: str(value) for name, value in values.items() if value is not None}


def topic_options(given: Namespace) -> dict[str, str]:
    return options_of(
        topic=given.topic,
        topics=given.topics,
        topicPattern=given.topic_pattern,
    )
