"""A client that writes epochs 0, 1, … of a table through a Flight server, in a process that tests kill.

``python flight_writer_job.py ADDRESS TABLE EPOCHS ROWS`` prints a line for each answer: its epoch.
"""

from __future__ import annotations

import sys

import orjson
import pyarrow as pa
from pyarrow import flight


def main(address: str, table: str, epochs: int, rows: int) -> None:
    schema = pa.schema([("epoch", pa.int64()), ("n", pa.int64())])
    request = orjson.dumps({"write": {"table": table, "writer": "job"}})
    client = flight.connect(address)
    writer, answers = client.do_put(flight.FlightDescriptor.for_command(request), schema)
    first = orjson.loads(answers.read().to_pybytes())["epoch"]
    for epoch in range(max(0, first - 1), epochs):  # the last ones again: their answers may have been lost
        batch = pa.record_batch([[epoch] * rows, list(range(rows))], schema=schema)
        writer.write_with_metadata(batch, str(epoch).encode())
        answer = answers.read()
        if answer is None:
            break
        print(orjson.loads(answer.to_pybytes())["epoch"], flush=True)
    writer.done_writing()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
