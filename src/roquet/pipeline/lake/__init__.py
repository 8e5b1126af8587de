"""The lake: messages as Parquet files for any reader, each message once.

    DIR/topic=orders/dt=2026-11-16/hour=12/orders-broker-a-0-0-100000.parquet
    DIR/_roquet/lake.json                        settings of all files: size, format, selection
    DIR/_roquet/log/00000000000000000001.json    what was added and removed, entry by entry
    DIR/_roquet/staged/RUN/...staged             files that no entry lists yet
    DIR/_roquet/writer.lock                      held by the writer
    DIR/_delta_log/...                           the same log, as a Delta table
    DIR-quarantine/topic=.../...parquet          messages that could not be decoded, and why

Duty: which offsets of which queue the lake has, and how it gets more, exactly once. The state of a
lake is what its log lists, nothing else: a writer adds only what the log lacks. Tasks stage files;
one process writes the entry that lists them and renames them to where readers look.
Dependencies: `lake.py` writes, `metadata.py` reads; `staging.py` and `compaction.py` are for tasks.
Decisions are pure: `state.py`, `file_ranges.py`, `file_names.py`, `ddl.py`. No Spark here.
"""
