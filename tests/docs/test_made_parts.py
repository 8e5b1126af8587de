"""What is made from the sources is as they are now; `python -m scripts.pages` makes it again."""

from pathlib import Path

import pytest

from roquet.broker.settings.apache_keys import TREATMENTS, Treatment
from roquet.namesrv.config import NameServerConfig, config_texts
from roquet.net.tls.settings import TLS_KEYS
from roquet.protocol.host import Address
from scripts.pages import setting_effects
from scripts.pages.regions import MADE, names_in, refreshed
from tests.support.page_blocks import pages

OTHER_SPELLINGS = {
    "haMaxGapNotInSync",
    "mapedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue",
}
PAGES = [page for page in pages() if names_in(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_current(page: Path) -> None:
    text = page.read_text()
    assert refreshed(text) == text, "python -m scripts.pages makes it anew"


def test_everything_that_is_made_is_in_a_page() -> None:
    assert sorted(name for page in PAGES for name in names_in(page.read_text())) == sorted(MADE)


def test_an_outdated_part_is_seen() -> None:
    text = "<!-- made: what has no effect -->\nnothing\n<!-- until here -->"
    assert refreshed(text) != text


def test_every_setting_that_a_broker_obeys_has_its_effect_in_a_line() -> None:
    obeyed = {
        key
        for key, treatment in TREATMENTS.items()
        if treatment in (Treatment.OBEYED, Treatment.CHANGEABLE)
    }
    reported = [key for rows in setting_effects.BROKER.values() for key in rows]
    assert sorted(reported) == sorted(obeyed - TLS_KEYS - OTHER_SPELLINGS)


def test_every_setting_that_a_name_server_obeys_has_its_effect_in_a_line() -> None:
    every = NameServerConfig(accounts_file=Path(), home=Path(), http_place=Address("127.0.0.1", 0))
    reported = [key for rows in setting_effects.NAME_SERVER.values() for key in rows]
    assert sorted(reported) == sorted(config_texts(every))
