"""Options of the format `rocketmq`: what goes together, and what does not."""

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import Position, QueueOffsets, ReadOptions

LEAST = {"nameServer": "localhost:9876", "topic": "orders"}


def read(**given: str) -> ReadOptions:
    return read_options(ReadOptions, LEAST | given)


def test_a_name_server_and_a_topic_are_enough() -> None:
    options = read()
    assert options.topics.named == ("orders",)
    assert options.starting_offsets is None
    assert not options.commits_offsets


def test_offsets_are_a_word_or_a_table() -> None:
    assert read(startingOffsets="Earliest").starting_offsets is Position.EARLIEST
    table = read(startingOffsets='{"orders": {"b": {"1": 5}}}').starting_offsets
    assert table == QueueOffsets({QueueRef("orders", "b", 1): 5})


def test_a_group_is_committed_unless_it_is_disabled() -> None:
    assert read(groupId="g").commits_offsets
    assert not read(groupId="g", commitOffsets="false").commits_offsets


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topics": "a,b"}, "exactly one of 'topic', 'topics' and 'topicPattern'"),
        ({"tagExpression": "a", "sqlExpression": "a = 1"}, "either this or 'sqlExpression'"),
        (
            {"startingOffsets": "latest", "startingTimestamp": "0"},
            "contradicts 'startingTimestamp'",
        ),
        ({"endingOffsets": "earliest"}, "did you mean 'latest'"),
        ({"startingOffsets": "group"}, "'groupId': required"),
        ({"commitOffsets": "true"}, "requires 'groupId'"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "more than 'maxOffsetsPerTrigger'",
        ),
        ({"accessKey": "me"}, "both 'accessKey' and 'secretKey'"),
        ({"tlsCaFile": "ca.pem"}, "requires tls"),
        ({"tls": "true", "tlsCaFile": "gone.pem"}, "'tlsCaFile': gone.pem .*No such file"),
        ({"nameServer": "localhost"}, "option 'nameServer': .*localhost"),
        ({"groupId": "a b"}, "option 'groupId': .*'a b'"),
        ({"groupIdPrefix": "a b"}, "option 'groupIdPrefix': .*'a b'"),
        ({"option.topic": "orders"}, "use CREATE TEMPORARY VIEW"),
        ({"properties": "json"}, "expected none or string or map"),
        ({"startingOffsets": "first"}, "earliest, latest, group"),
        ({"tagExpression": " || "}, "'tagExpression': .* expected tags"),
        ({"sqlExpression": "price >> 3"}, "'sqlExpression': .* expected an SQL92 expression"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        read(**given)


def test_a_pattern_matches_whole_names() -> None:
    given = {"nameServer": "localhost:9876", "topicPattern": "or.*"}
    topics = read_options(ReadOptions, given).topics
    assert topics.chosen(["orders", "xorders", "or"]) == ["or", "orders"]
