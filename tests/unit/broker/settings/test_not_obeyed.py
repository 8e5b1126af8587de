"""Options that a broker does not support, and which of their values it accepts."""

from pathlib import Path

import pytest

from roquet.broker.settings.apache_keys import read_config
from roquet.broker.settings.not_obeyed import UNSUPPORTED
from roquet.settings.options import UnsupportedOption

# For every key a text that requests something, and one that does not.
TEXTS = {
    "allAckInSyncStateSet": ("true", "false"),
    "asyncLearner": ("true", "false"),
    **dict.fromkeys(
        (
            "authenticationMetadataProvider",
            "authenticationProvider",
            "authenticationStrategy",
            "authorizationMetadataProvider",
            "authorizationProvider",
            "authorizationStrategy",
        ),
        ("com.example.Own", "org.apache.rocketmq.auth.authentication.Any"),
    ),
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
    "migrateAuthFromV1Enabled": ("true", "false"),
    "minInSyncReplicas": ("2", "1"),
    "popConsumerKVServiceEnable": ("true", "false"),
    "readOnlyCommitLogStorePaths": ("/old/log", ""),
    "rejectPullConsumerEnable": ("true", "false"),
    "storeType": ("defaultRocksDB", "default"),
    "timerRocksDBEnable": ("true", "false"),
    "timerStopDequeue": ("true", "false"),
    "timerStopEnqueue": ("true", "false"),
    "totalReplicas": ("3", "1"),
    "transRocksDBEnable": ("true", "false"),
}


def test_every_unsupported_option_has_its_texts_here() -> None:
    assert TEXTS.keys() == UNSUPPORTED.keys()


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_an_unsupported_feature_is_refused_with_a_remedy(key: str) -> None:
    text, _ = TEXTS[key]
    with pytest.raises(UnsupportedOption) as caught:
        read_config({key: text}, Path("somewhere"))
    assert (caught.value.key, caught.value.text) == (key, text)
    assert caught.value.unsupported is UNSUPPORTED[key]
    assert f"{key}={text} is not supported" in str(caught.value)


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_an_option_that_requests_nothing_is_accepted(key: str) -> None:
    _, text = TEXTS[key]
    assert read_config({key: text}, Path("somewhere"))
