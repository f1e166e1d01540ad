-- CREATE TABLE in both dialects: what is created.

--# all clauses of Spark
create table if not exists db.a (
  id int not null comment 'the key',
  dt string,
  price decimal(10, 2) comment "it's dear",
  primary key (id, dt)
) using lakelog
comment 'all clauses'
partitioned by (dt)
tblproperties ('bucket' = '4', "log-store.enabled" = true)
--> create table db.a if missing
-->   id int not null -- the key
-->   dt string not null
-->   price decimal(10,2) -- it's dear
-->   primary key id, dt
-->   partitioned by dt
-->   comment all clauses
-->   bucket = 4
-->   log-store.enabled = true

--# clauses in another order, odd spaces, key behind the columns
create table db.a(id int,dt string)using paimon primary key(id,dt)tblproperties("bucket"="2")partitioned by(dt)comment'x'
--> create table db.a
-->   id int not null
-->   dt string not null
-->   primary key id, dt
-->   partitioned by dt
-->   comment x
-->   bucket = 2

--# all clauses of Flink
CREATE TABLE IF NOT EXISTS lakelog.db.a (
  `id` BIGINT NOT NULL,
  dt STRING COMMENT 'day',
  CONSTRAINT pk PRIMARY KEY (id, dt) NOT ENFORCED
) COMMENT 'c' PARTITIONED BY (dt) WITH ('connector' = 'paimon', 'bucket' = '1', 'properties.a.b' = 'x;y')
--> create table db.a if missing
-->   id bigint not null
-->   dt string not null -- day
-->   primary key id, dt
-->   partitioned by dt
-->   comment c
-->   bucket = 1
-->   properties.a.b = x;y

--# a key in the column, and keys as options
create table db.a (id int primary key not enforced, v int);
create table db.b (id int, dt string, v int) tblproperties ('primary-key' = 'id, dt', 'partition' = 'dt')
--> create table db.a
-->   id int not null
-->   v int
-->   primary key id
--> create table db.b
-->   id int not null
-->   dt string not null
-->   v int
-->   primary key id, dt
-->   partitioned by dt

--# option keys without quotes
create table db.a (id int) using mixed_iceberg tblproperties (log-store.enabled = true, bucket = -1)
--> create table db.a
-->   id int
-->   log-store.enabled = true
-->   bucket = -1

--# types of Spark
create table db.a (
  a boolean, b tinyint, c byte, d smallint, e short, f integer, g long, h float, i real, j double, k decimal, l numeric(5),
  m string, n varchar(10), o char(3), p binary, q bytes, r date, s timestamp, t timestamp_ntz, u timestamp_ltz,
  v timestamp(3), w array<map<string, struct<x: int not null comment 'deep', y: array<decimal(3,1)>>>>, x variant
) using lakelog
--> create table db.a
-->   a boolean
-->   b tinyint
-->   c tinyint
-->   d smallint
-->   e smallint
-->   f int
-->   g bigint
-->   h float
-->   i float
-->   j double
-->   k decimal(10,0)
-->   l decimal(5,0)
-->   m string
-->   n varchar(10)
-->   o char(3)
-->   p binary
-->   q binary
-->   r date
-->   s timestamp
-->   t timestamp_ntz
-->   u timestamp
-->   v timestamp_ltz(3)
-->   w array<map<string,struct<x:int not null comment 'deep',y:array<decimal(3,1)>>>>
-->   x variant

--# types of Flink
create table db.a (
  a boolean, b double precision, c varbinary(8), d time(3), e time, f timestamp, g timestamp(3), h timestamp_ltz(3),
  i timestamp(3) with local time zone, j timestamp without time zone, k row<x int, y row(z string)>, l multiset<int>,
  m array<int not null> not null, n map<int, bigint> comment 'n'
) with ()
--> create table db.a
-->   a boolean
-->   b double
-->   c varbinary(8)
-->   d time(3)
-->   e time(0)
-->   f timestamp_ntz
-->   g timestamp_ntz(3)
-->   h timestamp_ltz(3)
-->   i timestamp_ltz(3)
-->   j timestamp_ntz
-->   k struct<x:int,y:struct<z:string>>
-->   l multiset<int>
-->   m array<int not null> not null
-->   n map<int,bigint> -- n

--# a name in backticks, and the current database
use db;
create table `order``s` (`group by` int, `中文` string)
--> create table db.order`s
-->   group by int
-->   中文 string

--# a table of Spark's own is left to Spark
create table x (id int) using parquet;
create table y stored as orc as select 1 as a;
create or replace table z (id int) using delta;
create external table z (id int) stored as orc
--> spark:
-->   create table x (id int) using parquet
--> spark:
-->   create table y stored as orc as select 1 as a
--> spark:
-->   create or replace table z (id int) using delta
--> spark:
-->   create external table z (id int) stored as orc

--# a table of Spark's own from a lakelog table
create table x using parquet as select id from db.t
--> query:
-->   create table x using parquet as select id from v1 AS `t`
-->   v1 = db.t [id]

--# a comment in every place
create /* a */ table -- b
  db.a /* /* nested; */ */ ( id /* 类型 */ int -- 注释; "'
  , name string) /* c */ using /* d */ lakelog; -- end
--> create table db.a
-->   id int
-->   name string

--# statements are separated by semicolons outside of strings
create table db.a (id int comment 'a;b') using lakelog;;
;create table db.b (id int comment "it''s -- no; comment") using lakelog;
--> create table db.a
-->   id int -- a;b
--> create table db.b
-->   id int -- it''s -- no; comment

--# columns of a query
create table db.a using lakelog primary key (id) tblproperties ('bucket' = '2') comment 'copied'
as select id, name from db.t where id > 1
--> columns of:
-->   select id, name from v1 AS `t` where id > 1
-->   v1 = db.t [id, name]
--> create table db.a
-->   id int not null
-->   name string
-->   primary key id
-->   comment copied
-->   bucket = 2
--> insert into db.a:
-->   select id, name from v1 AS `t` where id > 1
-->   v1 = db.t [id, name]

--# a query with expressions of its own, and keys as options
create table if not exists new.a with ('primary-key' = 'id') as with q as (select * from db.u) select id, name from q
--> columns of:
-->   with q as (select * from v1 AS `u`) select id, name from q
-->   v1 = db.u [id, name]
--> create database new if missing
--> create table new.a
-->   id int not null
-->   name string
-->   primary key id
--> insert into new.a:
-->   with q as (select * from v1 AS `u`) select id, name from q
-->   v1 = db.u [id, name]

--# a table like another one
create table db.a like other.p using lakelog;
create table if not exists db.b like db.t tblproperties ('bucket' = '3')
--> create table db.a
-->   day date
-->   id int
-->   hour int
-->   name string
-->   partitioned by day, hour
--> create table db.b if missing
-->   id int not null
-->   name string
-->   ts timestamp
-->   tags array<string>
-->   info struct<a:int,id:string>
-->   primary key id
-->   bucket = 3

--# a table of lakelog's like one of Spark's
create table db.a like spark_t using lakelog
--> columns of:
-->   SELECT * FROM spark_t
--> create table db.a
-->   id int
-->   name string

--# a table of Spark's like another one
create table b like spark_t;
create table c like db.t using parquet
--> spark:
-->   create table b like spark_t
--> spark:
-->   create table c like db.t using parquet

--# or replace, of a table that is not there
create or replace table db.fresh (id int) using lakelog
--> create table db.fresh
-->   id int

--# or replace as, of a table that is not there
create or replace table db.fresh primary key (id) as select id, name from db.t
--> columns of:
-->   select id, name from v1 AS `t`
-->   v1 = db.t [id, name]
--> create table db.fresh
-->   id int not null
-->   name string
-->   primary key id
--> insert into db.fresh:
-->   select id, name from v1 AS `t`
-->   v1 = db.t [id, name]

--# partition columns with their types
create table db.hive (id int) using lakelog partitioned by (day date comment 'of the event', hour int)
--> create table db.hive
-->   id int
-->   day date -- of the event
-->   hour int
-->   partitioned by day, hour
