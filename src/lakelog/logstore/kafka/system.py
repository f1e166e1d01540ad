"""The log on Apache Kafka: one topic per table, one partition per bucket."""

from __future__ import annotations

from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogServer, LogSystem
from lakelog.logstore.kafka.batch_appender import BatchAppender
from lakelog.logstore.kafka.batch_reader import BatchReader
from lakelog.logstore.kafka.connections import understands
from lakelog.logstore.kafka.probe import probe
from lakelog.logstore.kafka.record_clients import RecordAppender, RecordReader
from lakelog.logstore.kafka.topic import KafkaTopic


class KafkaLogSystem(LogSystem):
    """Topics of a Kafka cluster.

    Records are written and read in whole batches (RFC 13). A table whose client properties only librdkafka knows, like
    Kerberos, has clients that work record by record.
    """

    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        return KafkaTopic(location).create(adopt)

    def set_retention(self, location: LogLocation) -> None:
        KafkaTopic(location).set_retention()

    def drop(self, location: LogLocation) -> None:
        KafkaTopic(location).drop()

    def check(self, location: LogLocation, spread: bool = False) -> None:
        KafkaTopic(location).check()

    def probe(self, location: LogLocation) -> LogServer:
        return probe(location)

    def appender(self, location: LogLocation) -> LogAppender:
        return BatchAppender(location) if understands(location) else RecordAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return BatchReader(location) if understands(location) else RecordReader(location)
