-- The statements of the documents that lakelog comes from, as they stand there.

--# Spark dialect, properties in double quotes
create table db.log_table (
    id int,
    name string,
    ts timestamp,
    primary key (id)
) using arctic
tblproperties (
"log-store.enabled" = "true",
"log-store.topic"="topic_log_test",
"log-store.address"="localhost:9092"
);
--> create table db.log_table
-->   id int not null
-->   name string
-->   ts timestamp
-->   primary key id
-->   log-store.enabled = true
-->   log-store.topic = topic_log_test
-->   log-store.address = localhost:9092

--# Flink dialect behind a Chinese comment
-- 首先使用 use catalog 命令切换到 arctic catalog。
create table db.log_table (
    id int,
    name string,
    ts timestamp,
    primary key (id) not enforced
) with (
    'log-store.enabled' = 'true',
    'log-store.topic'='topic_log_test',
    'log-store.address'='localhost:9092');
--> create table db.log_table
-->   id int not null
-->   name string
-->   ts timestamp_ntz
-->   primary key id
-->   log-store.enabled = true
-->   log-store.topic = topic_log_test
-->   log-store.address = localhost:9092

--# a consistent read of the log
select * from arctic.db.arctic
/*+ OPTIONS('arctic.read.mode'='log','log-store.consistency-guarantee.enabled'='true') */;
--> query:
-->   select * from v1 AS `arctic`
-->   v1 = db.arctic [*] read.mode=log log-store.consistency-guarantee.enabled=true

--# a placeholder for columns is an error that says so, and nothing of the script is run
select * from arctic.db.arctic
/*+ OPTIONS('arctic.read.mode'='log','log-store.consistency-guarantee.enabled'='true') */;

--或者是创建表时开启一致性读取
create table catalog.db.arctic (
    ...
) WITH (
    'log-store.enabled' = 'true',
    'log-store.topic'='topic_log_test',
    'log-store.address'='localhost:9092',
    'log-store.consistency-guarantee.enabled'='true'
);
--> UnsupportedStatement:
-->   line 6, column 5: '...' is a placeholder from a manual: write the columns, e.g. id int, name string
-->       ...
-->       ^

--# the same with columns
create table catalog.db.arctic2 (
    id int, name string
) WITH (
    'log-store.enabled' = 'true',
    'log-store.topic'='topic_log_test',
    'log-store.address'='localhost:9092',
    'log-store.consistency-guarantee.enabled'='true'
);
--> create table db.arctic2
-->   id int
-->   name string
-->   log-store.enabled = true
-->   log-store.topic = topic_log_test
-->   log-store.address = localhost:9092
-->   log-store.consistency-guarantee.enabled = true

--# Spark dialect in upper case
CREATE TABLE db.log_table (
    id int,
    name string,
    ts timestamp,
    primary key (id)
) using arctic
tblproperties (
"log-store.enabled" = "true",
"log-store.topic"="topic_log_test",
"log-store.address"="localhost:9092"
);
--> create table db.log_table
-->   id int not null
-->   name string
-->   ts timestamp
-->   primary key id
-->   log-store.enabled = true
-->   log-store.topic = topic_log_test
-->   log-store.address = localhost:9092

--# Flink dialect in upper case
-- First use the use catalog command to switch to the arctic catalog.
CREATE TABLE db.log_table (
    id int,
    name string,
    ts timestamp,
    primary key (id) not enforced
) WITH (
    'log-store.enabled' = 'true',
    'log-store.topic'='topic_log_test',
    'log-store.address'='localhost:9092');
--> create table db.log_table
-->   id int not null
-->   name string
-->   ts timestamp_ntz
-->   primary key id
-->   log-store.enabled = true
-->   log-store.topic = topic_log_test
-->   log-store.address = localhost:9092

--# insert that writes the log only
CREATE TABLE db.log_table (id int, name string, ts timestamp, primary key (id)) using arctic;
INSERT INTO db.log_table /*+ OPTIONS('arctic.emit.mode'='log') */
SELECT id, name, ts from sourceTable;
--> create table db.log_table
-->   id int not null
-->   name string
-->   ts timestamp
-->   primary key id
--> insert into db.log_table emit.mode=log:
-->   SELECT id, name, ts from sourceTable

--# the catalog is switched first, and a missing database is made
use catalog arctic;
create table new_db.log_table (id int);
--> create database new_db if missing
--> create table new_db.log_table
-->   id int
