"""Kafka's record batches (format v2) by columns: Arrow arrays ⇄ bytes, without a Python object per record.

``encoder`` makes the records of a batch by one vectorised join, ``decoder`` parses them by columns, ``batch`` frames
them. The batches are those of the Kafka protocol, so a broker stores them and any consumer reads them. The embedded log
stores them as rows.
"""
