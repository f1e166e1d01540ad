-- SHOW and DESCRIBE of what a table is made of.

--# columns
show columns in db.t;
show columns from t in db
--> answer col_name:
-->   id
-->   name
-->   ts
-->   tags
-->   info
--> answer col_name:
-->   id
-->   name
-->   ts
-->   tags
-->   info

--# columns of a table of Spark's
show columns in spark_t
--> spark:
-->   show columns in spark_t

--# properties
create table db.a (id int primary key) using lakelog tblproperties ('bucket' = '2', 'properties.password' = 'x');
show tblproperties db.a;
show tblproperties db.a ('bucket');
show tblproperties db.a (read.mode)
--> create table db.a
-->   id int not null
-->   primary key id
-->   bucket = 2
-->   properties.password = x
--> answer key, value:
-->   bucket | 2
-->   properties.password | ******
--> answer key, value:
-->   bucket | 2
--> answer key, value:
-->   read.mode | Table db.a does not have property: read.mode

--# partitions of a table without
show partitions db.t
--> InvalidRequest:
-->   table 'db.t' has no partitions: it was created without PARTITIONED BY

--# a partition that is not there yet
alter table other.p add if not exists partition (day = '2024-01-31', hour = 7);
alter table other.p add partition (day = '2024-01-31')
--> InvalidSchema:
-->   a partition of table 'other.p' needs a value of 'hour', too

--# a table that is called history
create table db.history (id int);
use db;
describe history
--> create table db.history
-->   id int
--> answer col_name, data_type, comment:
-->   id | int | -
