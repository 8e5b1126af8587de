"""The pages of `docs`: what is made from the sources, and the site that mkdocs makes of them."""
