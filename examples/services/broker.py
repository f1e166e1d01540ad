"""A Kafka broker of one node at an address; the first start downloads its jars. Any other broker does as well."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile

from lakelog.service.servers.server_process import KafkaBroker

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="lakelog-broker-") as directory,
        KafkaBroker(directory, port=int(sys.argv[1].rpartition(":")[2])) as broker,
    ):
        print(f"broker at {broker.address}", flush=True)
        signal.pause()
