"""Tables of all settings, from the tables that the servers themselves use."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from roquet.broker.settings import apache_keys
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.settings.not_obeyed import HARMLESS, UNSUPPORTED
from roquet.namesrv import config as namesrv
from roquet.settings.options import Unsupported
from roquet.store.config import StoreConfig
from scripts.pages import setting_effects

# Defaults that depend on the machine, or on other settings.
_DERIVED: Final = {
    "brokerName": "the host name",
    "storePathRootDir": "`~/store`",
    "storePathCommitLog": "`commitlog` in it",
    "brokerIP1": "`bindAddress`, or detected if that is a wildcard",
    "brokerIP2": "`brokerIP1`",
    "haListenPort": "`0`",
}
_EXAMPLE_DIRECTORY: Final = Path("store")


def broker_settings() -> str:
    config = BrokerConfig(store=StoreConfig(root=_EXAMPLE_DIRECTORY), broker_name="host")
    texts = apache_keys.config_texts(config)
    return _chapters(setting_effects.BROKER, texts, apache_keys.CHANGEABLE)


def name_server_settings() -> str:
    texts = namesrv.config_texts(namesrv.NameServerConfig())
    return _rows(setting_effects.NAME_SERVER["Name server"], texts, namesrv.CHANGEABLE)


def refused_by_brokers() -> str:
    return _unsupported(UNSUPPORTED)


def refused_by_name_servers() -> str:
    return _unsupported(namesrv.UNSUPPORTED)


def harmless() -> str:
    """By the reason why they have no effect."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for key, reason in HARMLESS.items():
        keys[reason].append(key)
    lines = [f"- *{reason}*: {_listed(sorted(each))}" for reason, each in keys.items()]
    lines.append(f"- *of name servers*: {_listed(sorted(namesrv.HARMLESS))}")
    return "\n".join(lines)


def _chapters(
    effects: Mapping[str, Mapping[str, str]],
    defaults: Mapping[str, str],
    changeable: Collection[str],
) -> str:
    return "\n\n".join(
        f"### {title}\n\n{_rows(rows, defaults, changeable)}" for title, rows in effects.items()
    )


def _rows(
    effects: Mapping[str, str], defaults: Mapping[str, str], changeable: Collection[str]
) -> str:
    lines = [
        f"| `{key}` | {_default(key, defaults)} | {'yes' if key in changeable else ''} | {effect} |"
        for key, effect in effects.items()
    ]
    return "\n".join(["| key | default | at run time | effect |", "|---|---|---|---|", *lines])


def _default(key: str, defaults: Mapping[str, str]) -> str:
    if key in _DERIVED:
        return _DERIVED[key]
    text = defaults.get(key, "")
    return f"`{text}`" if text else ""


def _unsupported(options: Mapping[str, Unsupported]) -> str:
    lines = [
        f"| {_listed(keys)} | {feature} | {remedy} |"
        for (feature, remedy), keys in groupby(
            options, lambda key: (options[key].feature, options[key].remedy)
        )
    ]
    return "\n".join(["| key | unsupported feature | what to do |", "|---|---|---|", *lines])


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
