"""What a broker refuses to be asked for, and what of the same keys it takes."""

from pathlib import Path

import pytest

from roquet.broker.settings.apache_keys import read_config
from roquet.broker.settings.promises import PROMISES
from roquet.settings.promises import PromiseNotKept

# For every key a text that promises something, and one that does not.
TEXTS = {
    "allAckInSyncStateSet": ("true", "false"),
    "asyncLearner": ("true", "false"),
    "authenticationEnabled": ("True", "no"),
    "authorizationEnabled": ("true", "false"),
    "configManagerVersion": ("v2", "v1"),
    "duplicationEnable": ("true", "false"),
    "enableConsumeQueueExt": ("true", "false"),
    "enableControllerMode": ("true", "false"),
    "enableDLegerCommitLog": (" true ", "false"),
    "enableLmq": ("true", "false"),
    "enableMultiDispatch": ("true", "false"),
    "enableRemoteEscape": ("true", "false"),
    "enableSlaveActingMaster": ("true", "false"),
    "fetchNameSrvAddrByDnsLookup": ("true", "false"),
    "fetchNamesrvAddrByAddressServer": ("true", "false"),
    "inSyncReplicas": ("2", "1"),
    "litePullMessageEnable": ("false", "true"),
    "messageStorePlugIn": ("org.apache.rocketmq.tieredstore.TieredMessageStore", " "),
    "minInSyncReplicas": ("2", "1"),
    "readOnlyCommitLogStorePaths": ("/old/log", ""),
    "rejectPullConsumerEnable": ("true", "false"),
    "storeType": ("defaultRocksDB", "default"),
    "timerRocksDBEnable": ("true", "false"),
    "timerStopDequeue": ("true", "false"),
    "timerStopEnqueue": ("true", "false"),
    "totalReplicas": ("3", "1"),
    "transRocksDBEnable": ("true", "false"),
}


def test_every_promise_has_its_texts_here() -> None:
    assert TEXTS.keys() == PROMISES.keys()


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_a_promise_that_cannot_be_kept_is_refused_with_a_remedy(key: str) -> None:
    text, _ = TEXTS[key]
    with pytest.raises(PromiseNotKept) as caught:
        read_config({key: text}, Path("somewhere"))
    assert (caught.value.key, caught.value.text) == (key, text)
    message = str(caught.value)
    assert message.startswith(f"{key}={text!r} promises ")
    assert message.endswith(f": {PROMISES[key].remedy}")


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_who_promises_nothing_may_start(key: str) -> None:
    _, text = TEXTS[key]
    assert read_config({key: text}, Path("somewhere"))
