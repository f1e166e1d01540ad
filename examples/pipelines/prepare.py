"""Makes the lakelog tables of the pipeline, and gives it changes to read: ``python prepare.py``, before each run.

It needs no Java. ``shop.changes`` has the changes of orders as a source sends them: some late, some twice.
``shop.orders`` has the current orders. Its primary key and ``sequence.field`` are the ``keys`` and ``sequence_by`` of
Spark's AUTO CDC: of the changes of a key, the one with the largest ``version`` is the newest, whatever comes last.
"""

import os

import polars as pl

import lakelog

CHANGES = [
    # id, city, amount, version, op
    (1, "Oslo", 30.0, 1, "upsert"),
    (2, "Bergen", 20.0, 1, "upsert"),
    (1, "Oslo", 35.0, 3, "upsert"),
    (1, "Oslo", 31.0, 2, "upsert"),  # late
    (2, "Bergen", 20.0, 2, "delete"),
    (3, "Tromsø", 5.0, 1, "upsert"),
]
LATER = [
    (3, "Tromsø", 6.0, 2, "upsert"),
    (1, "Oslo", 35.0, 3, "upsert"),  # once more
]

lake = lakelog.connect(os.environ.get("LAKELOG_WAREHOUSE", "./warehouse"))
lake.sql("create database if not exists shop")
lake.sql("create table if not exists shop.changes (id bigint, city string, amount double, version bigint, op string)")
lake.sql("""create table if not exists shop.orders (id bigint, city string, amount double, version bigint,
            primary key (id)) tblproperties ('sequence.field' = 'version', 'log-store.enabled' = 'true')""")

changes = CHANGES if lake.table("shop.changes").latest_snapshot() is None else LATER
lake.write(pl.DataFrame(changes, ["id", "city", "amount", "version", "op"], orient="row"), "shop.changes")
print(f"{len(changes)} changes")
