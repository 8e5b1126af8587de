"""`python -m scripts.pages`: makes the parts of `docs` anew that are made from the sources."""

from scripts.pages.regions import refresh_all

for page in refresh_all():
    print(f"updated: {page.name}")
