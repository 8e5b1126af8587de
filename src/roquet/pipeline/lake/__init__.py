"""The lake: messages as Parquet files for any reader, each message once.

    DIR/topic=orders/dt=2026-11-16/hour=12/orders-broker-a-0-0-100000.parquet
    DIR/_roquet/lake.json                        settings of all files: size, format, selection
    DIR/_roquet/log/00000000000000000001.json    what was added and removed, entry by entry
    DIR/_roquet/staged/RUN/...staged             files that no entry lists yet
    DIR/_roquet/writer.lock                      held by the writer
    DIR-quarantine/topic=.../...parquet          messages that could not be decoded, and why

That is a lake of plain Parquet. One that is a table has files and the log of the table instead, in
a directory or in an object store:

    URI/topic=orders/dt=2026-11-16/hour=12/broker-a-0-0-UUID.parquet
    URI/_delta_log/...                           files and ranges of offsets, commit by commit
    URI/metadata/..., URI/roquet-catalog.json    the same of an Iceberg table, and its catalog
    URI-quarantine/...                           the same, of messages that could not be decoded

Duty: which offsets of which queue the lake has, and how it gets more, exactly once. The state of a
lake is what its log lists, nothing else: a writer adds only what the log lacks. Tasks stage files;
one process writes the entry that lists them and renames them to where readers look.
Dependencies: `opening.py` finds a lake of any format. `lake.py` writes Parquet lakes, `metadata.py`
reads them; `table.py` writes tables, by `delta_table.py` or `iceberg_table.py`. `staging.py` and
`compaction.py` are for tasks, `places.py` reaches directories and stores.
Decisions are pure: `state.py`, `files.py`, `table_offsets.py`, `ddl.py`. No Spark here.
"""
