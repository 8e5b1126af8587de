"""`ingest --infer`: columns by the first JSON bodies of the topics. Needs no Spark.

A lake that has columns keeps them: only new ones are added, and new fields of structs where its
format has them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from roquet.pipeline.connections import retried, topic_reader
from roquet.pipeline.errors import BadOption, BadSchema
from roquet.pipeline.lake.ddl import write_ddl
from roquet.pipeline.lake.schemas.drift import field_paths
from roquet.pipeline.lake.schemas.evolution import EvolutionRules, evolved
from roquet.pipeline.lake.schemas.inference import Inference, inferred
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.source.positions import batch_ranges
from roquet.pipeline.source.rows import pull_group, read_ranges

# Looked at, the same number in each queue.
INFER_MESSAGES_MAX: Final = 1_000
_STARTING: Final = "starting"
_BODY: Final = "body"


class InferredColumns(NamedTuple):
    """`columns` of the lake, in DDL; `messages` were looked at, `not_json` are no JSON objects.

    `left_out` are fields without a column, by their paths, with the reason.
    """

    columns: str
    messages: int
    not_json: int
    left_out: Mapping[str, str]


def infer(source: Mapping[str, str], before: pa.Schema, rules: EvolutionRules) -> InferredColumns:
    """`source` are options of format `rocketmq`; the first messages are read, wherever it starts.

    Raises BadOption for topics without messages, BadSchema for bodies that are no JSON objects, and
    what the client raises.
    """
    options = {
        name: value for name, value in source.items() if not name.lower().startswith(_STARTING)
    }
    found = inferred(_first_bodies(read_options(ReadOptions, options)))
    _check_found(found, before)
    columns = evolved(before, found.columns, rules._replace(widens=False))
    # A column that the lake has stays, even if these bodies do not agree about its type.
    there = {path for path, _ in field_paths(list(columns))}
    left_out = {path: why for path, why in found.left_out.items() if path not in there}
    return InferredColumns(write_ddl(columns), found.bodies, found.not_json, left_out)


def _first_bodies(reading: ReadOptions) -> Iterator[bytes]:
    reader = topic_reader(reading.cluster, pull_group(reading))
    ranges = retried(
        lambda: batch_ranges(reader, reading), reading.cluster.retry_timeout, is_starting=True
    )
    for batch in read_ranges(reading, [_BODY], first_of(ranges, INFER_MESSAGES_MAX)):
        for body in batch.column(_BODY).to_pylist():
            yield body or b""


def first_of(ranges: list[QueueRange], count: int) -> list[QueueRange]:
    """The first offsets of each queue, at most `count` together unless there are more queues."""
    filled = sorted((each for each in ranges if each.row_count), key=lambda each: each.row_count)
    found = []
    for index, each in enumerate(filled):
        # What shorter queues lack, longer ones may have.
        share = max(1, count // (len(filled) - index))
        taken = min(share, each.row_count)
        found.append(QueueRange(each.queue, each.start, each.start + taken))
        count -= taken
    return found


def _check_found(found: Inference, before: pa.Schema) -> None:
    if not found.bodies:
        raise BadOption("infer", "the topics have no messages yet: send some, or give json-schema")
    if found.not_json == found.bodies:
        raise BadSchema(
            f"none of the first {found.bodies} messages has a JSON object as its body: leave out"
            " infer, or give the schema of the bodies (avro-schema, protobuf-schema, registry)"
        )
    if not found.columns.names and not before.names:
        left_out = ", ".join(f"{path} ({reason})" for path, reason in found.left_out.items())
        raise BadSchema(
            f"no field of the first {found.bodies} messages can be a column: {left_out or 'none'};"
            " give json-schema"
        )
