"""The lake: messages as Parquet files that any reader takes, each message once.

    DIR/topic=orders/dt=2026-11-16/hour=12/orders-broker-a-0-0-100000.parquet
    DIR/_roquet/lake.json                        what holds for all files: grid, form, selection
    DIR/_roquet/log/00000000000000000001.json    what was added and removed, entry by entry
    DIR/_roquet/staged/RUN/...staged             files that nobody listed yet
    DIR/_roquet/writer.lock                      held by whoever writes
    DIR/_delta_log/...                           the log once more, for a table of Delta
    DIR-quarantine/topic=.../...parquet          messages that could not be decoded, and why

Duty: which offsets of which queue the lake has, and how it gets more, exactly once. The state of a
lake is what its log says, nothing else: a writer adds only what the log lacks. Tasks stage files;
one process writes the entry that lists them and renames them to where readers look.
Doors: `lake.py` writes, `publish_log.py` reads; `staging.py` and `joining.py` are for tasks. What
is decided is pure: `state.py`, `offset_ranges.py`, `cells.py`, `file_names.py`, `ddl.py`. Nothing
here knows Spark.
"""
