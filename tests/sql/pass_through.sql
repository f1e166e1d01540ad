-- What is Spark's goes to Spark as it is; a query inside it may still read lakelog tables.

--# untouched
set spark.sql.shuffle.partitions=2;
cache table spark_t;
  create temporary view v as select 1 -- one
  as a;
explain extended select * from spark_t
--> spark:
-->   set spark.sql.shuffle.partitions=2
--> spark:
-->   cache table spark_t
--> spark:
-->   create temporary view v as select 1 -- one
-->     as a
--> spark:
-->   explain extended select * from spark_t

--# explain of a lakelog query
explain formatted select name from db.t where id = 1
--> query:
-->   explain formatted select name from v1 AS `t` where id = 1
-->   v1 = db.t [id, name]

--# a temporary view on a lakelog table needs its views for longer
create or replace temp view v as
select id, name from db.t /*+ OPTIONS('read.mode'='log') */;
cache table c as with x as (select * from db.t) select id from x
--> query with persistent views:
-->   create or replace temp view v as
-->   select id, name from v1 AS `t`
-->   v1 = db.t [id, name] read.mode=log
--> query with persistent views:
-->   cache table c as with x as (select * from v2 AS `t`) select id from x
-->   v2 = db.t [id]

--# the same on Spark's tables
delete from spark_t where id = 1;
truncate table spark_db.x
--> spark:
-->   delete from spark_t where id = 1
--> spark:
-->   truncate table spark_db.x
