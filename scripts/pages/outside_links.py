"""A hook of mkdocs: pages link to files outside of `docs`, and the site has those files, too.

`[a test](../tests/interop/test_tls.py)` is a link that works where the repository is browsed. In
the site it leads to a page with the text of that file: the site needs nothing but itself.
"""

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
SHOWN_BELOW: Final = "repository"
_LINK: Final = re.compile(r"\]\(\.\./([\w./-]+?)(#[\w-]+)?\)")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".service": "ini"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a page for each file that is linked to; one that is missing stays a broken link."""
    linked = {
        place
        for file in files.documentation_pages()
        for place, _ in _LINK.findall(file.content_string)
        if (ROOT / place).is_file()
    }
    for place in sorted(linked):
        files.append(File.generated(config, _shown_as(place), content=_page(place)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    del config, files
    if page.file.src_uri.startswith(f"{SHOWN_BELOW}/"):
        return markdown
    return _LINK.sub(lambda link: f"]({_shown_as(link[1])})", markdown)


def _shown_as(place: str) -> str:
    return f"{SHOWN_BELOW}/{place}.md"


def _page(place: str) -> str:
    path = ROOT / place
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        # Its links start elsewhere; as text they are still to be read.
        return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
    language = _LANGUAGES.get(path.suffix, "text")
    # Indented, because a file may hold fences of its own.
    indented = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    return f"# {place}\n\n    :::{language}\n{indented}\n"
