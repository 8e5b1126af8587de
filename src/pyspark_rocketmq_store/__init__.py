"""Format `rocketmq-store`, where Spark looks for formats: packages called `pyspark_...`.

One of them that cannot be imported hides those of everybody else, so where pyarrow is missing
this one has nothing to offer and says why.
"""

import logging

try:
    from roquet.pipeline.data_sources import RocketmqStoreDataSource as DefaultSource
except ImportError as missing:
    logging.getLogger(__name__).warning("there is no format rocketmq-store: %s", missing)
else:
    __all__ = ["DefaultSource"]
