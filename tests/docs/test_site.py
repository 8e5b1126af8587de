"""mkdocs makes a site of `docs` without a warning, and the site needs nothing but itself."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.page_blocks import ROOT

_LINK = re.compile(r"""<(?:a|link|script|img)\b[^>]*?\b(href|src)=["']([^"']+)["']""")
_PLACE = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return directory


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    pages = [page.with_suffix(".html").name for page in (ROOT / "docs").glob("*.md")]
    assert not [page for page in pages if f'href="{page}"' not in menu and page != "index.html"]


def test_every_link_leads_somewhere_in_the_site(site: Path) -> None:
    broken = [
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for kind, link in _LINK.findall(page.read_text())
        if is_broken(page, kind, link)
    ]
    assert not broken


def is_broken(page: Path, kind: str, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        # A page may name another site. It must not need one.
        return kind == "src" or link.endswith(".css")
    target = page.parent / unquote(parts.path) if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return True
    return bool(parts.fragment) and parts.fragment not in _PLACE.findall(target.read_text())


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<h1 id="here">')
    assert not is_broken(page, "href", "page.html#here")
    assert is_broken(page, "href", "page.html#there")
    assert is_broken(page, "href", "other.html")
    assert is_broken(page, "src", "https://example.com/script.js")
