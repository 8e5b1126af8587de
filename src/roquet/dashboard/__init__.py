"""The dashboard: a cluster as pages in a browser, for our brokers and Apache's alike.

`polling` asks the cluster once for all viewers, `history` keeps a day of it, `pages` has what is
shown, `web` what a browser may ask for and who may ask.

Duty: show a cluster, and change it where that is allowed.
Dependencies: `client`, and nothing that serves messages. aiohttp and Jinja2, the extra `dashboard`.
"""
