"""Where a broker finds its name servers."""

from pathlib import Path

import pytest

from roquet.cli.serving.broker_process import BrokerOptions, _config


def name_servers(tmp_path: Path, *, given: str | None, in_file: str | None) -> tuple[str, ...]:
    config_file = None
    if in_file is not None:
        config_file = tmp_path / "broker.conf"
        config_file.write_text(f"namesrvAddr={in_file}\n")
    options = BrokerOptions(
        config_file=config_file,
        name_servers=given,
        directory=tmp_path,
        host=None,
        advertised_host=None,
        port=None,
    )
    return _config(options).name_servers


@pytest.mark.parametrize(
    ("given", "in_file", "found"),
    [
        (None, None, ("environment:1",)),
        (None, "file:1", ("file:1",)),
        ("given:1", "file:1", ("given:1",)),
        ("http://page:8080/nsaddr", None, ("http://page:8080/nsaddr",)),
    ],
)
def test_the_command_line_counts_before_the_file_and_that_before_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    in_file: str | None,
    found: tuple[str, ...],
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "environment:1")
    assert name_servers(tmp_path, given=given, in_file=in_file) == found


def test_without_any_of_them_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert name_servers(tmp_path, given=None, in_file=None) == ()
