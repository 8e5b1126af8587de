"""Format `rocketmq-store`, where Spark discovers formats: in packages called `pyspark_...`.

One that cannot be imported hides all others, so without pyarrow this one is empty and logs why.
"""

import logging

try:
    from roquet.pipeline.data_sources import RocketmqStoreDataSource as DefaultSource
except ImportError as missing:
    logging.getLogger(__name__).warning("format rocketmq-store is not available: %s", missing)
else:
    __all__ = ["DefaultSource"]
