"""Every word of every page is there in every language."""

import re

from roquet.dashboard.pages.rendering import NAVIGATION, TEMPLATES
from roquet.dashboard.translations import LANGUAGES, translation

_TEXT = re.compile(r"""_\((?:"([^"]+)"|'([^']+)')\)""")


def test_every_text_of_the_templates_is_translated() -> None:
    texts = {name for _, name in NAVIGATION}
    for path in TEMPLATES.glob("*.html"):
        texts |= {"".join(each) for each in _TEXT.findall(path.read_text())}
    assert len(texts) > 30
    others = LANGUAGES.keys() - {"en"}
    missing = {text for text in texts for language in others if translation(language, text) == text}
    assert not missing


def test_what_is_not_translated_is_shown_as_it_is() -> None:
    assert translation("zh", "no such text") == "no such text"
    assert translation("en", "Topics") == "Topics"
