"""A program that uses the formats through Spark Connect, and prints what it saw as JSON.

The client speaks gRPC to a server that it starts itself; a process that has a session of the other
kind cannot have this one.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession

import roquet.pipeline


def main() -> None:
    given: dict[str, str] = json.loads(sys.argv[1])
    options = {"nameServer": given["name_server"], "topic": given["topic"]}
    session: SparkSession = SparkSession.Builder().remote("local[2]").getOrCreate()
    try:
        found = {
            "session": f"{type(session).__module__}",
            # Nobody registered anything: the server looks for formats by itself.
            "found": bodies(session.read.format("rocketmq").options(**options).load()),
        }
        roquet.pipeline.register(session)
        rows = session.range(10, 20).selectExpr("string(id) AS body")
        rows.write.format("rocketmq").options(**options).mode("append").save()
        found["written"] = bodies(session.read.format("rocketmq").options(**options).load())
        query = (
            session.readStream.format("rocketmq")
            .options(**options, startingOffsets="earliest")
            .load()
            .writeStream.format("memory")
            .queryName("orders")
            .option("checkpointLocation", given["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found["streamed"] = bodies(session.table("orders"))
    finally:
        session.stop()
    sys.stdout.write(json.dumps(found))


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


if __name__ == "__main__":
    main()
