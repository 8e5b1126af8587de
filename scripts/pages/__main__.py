"""`python -m scripts.pages`: regenerates the parts of `docs` that come from the sources."""

from scripts.pages.regions import refresh_all

for page in refresh_all():
    print(f"updated: {page.name}")
