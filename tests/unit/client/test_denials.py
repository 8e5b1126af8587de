"""What access control refuses."""

from pathlib import Path

import pytest

from roquet.client.blocking.producer import Producer
from roquet.client.config import Credentials
from roquet.client.denials import Denial, denial_in
from roquet.client.errors import SendRefused
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.accounts import PUBLISHER, TOPIC, accounts_file

_PREFIX = "org.apache.rocketmq.acl.common.AclException: "


@pytest.mark.parametrize(
    ("remark", "denial"),
    [
        (None, None),
        ("the broker is not writable", None),
        (f"{_PREFIX}No accessKey is configured", Denial.NO_CREDENTIALS),
        (f"{_PREFIX}Check signature failed for accessKey=me", Denial.WRONG_CREDENTIALS),
        (f"{_PREFIX}No acl config for me", Denial.WRONG_CREDENTIALS),
        (f"{_PREFIX}No default permission for topic:t", Denial.NO_RIGHT),
        ("Need admin permission for request code=28, but accessKey=me is not", Denial.NO_RIGHT),
        (f"{_PREFIX}something else", Denial.NO_RIGHT),
    ],
)
def test_a_denial_is_known_by_its_sentence(remark: str | None, denial: Denial | None) -> None:
    assert denial_in(remark) is denial


def test_a_denied_send_is_not_tried_again(tmp_path: Path) -> None:
    settings = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path))}
    with (
        BlockingCluster(settings=settings) as cluster,
        Producer(cluster.name_server, "till", credentials=Credentials(*PUBLISHER)) as producer,
    ):
        producer.send(Message(TOPIC, b"1"))
        with pytest.raises(SendRefused) as refused:
            producer.send(Message("forbidden", b"1"))
        assert not refused.value.may_pass
        assert "sending again is no use" in str(refused.value)
        assert producer.statistics().retry_count == 0
