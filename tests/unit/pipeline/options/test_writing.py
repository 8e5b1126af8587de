"""Options for writing: what goes together, and what does not."""

import pytest

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.writing import DeliveryMode, WriteOptions


def read(**given: str) -> WriteOptions:
    return read_options(WriteOptions, {"nameServer": "localhost:9876"} | given)


def test_a_name_server_is_enough() -> None:
    options = read()
    assert options.delivery_mode is DeliveryMode.AT_LEAST_ONCE
    assert (options.batch_size, options.batch_count) == (512 << 10, 1024)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"deliveryMode": "exactly_once"}, "at_least_once or idempotent"),
        ({"deliveryMode": "idempotent"}, "'idColumn': required"),
        ({"idColumn": "x"}, "'idColumn': only for deliveryMode 'idempotent'"),
        ({"groupId": "a b"}, "option 'groupId': .*'a b'"),
        ({"writeId": "x"}, "'writeId': only for deliveryMode 'idempotent'"),
        ({"batchSize": "5m"}, "at most 4194304 bytes"),
        ({"batchCount": "70000"}, "at most 65000 messages"),
        ({"topics": "x"}, "did you mean 'topic'"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        read(**given)
