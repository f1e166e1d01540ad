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
-->   a partition of table 'other.p' also needs a value of 'hour'

--# a table that is called history
create table db.history (id int);
use db;
describe history
--> create table db.history
-->   id int
--> answer col_name, data_type, comment:
-->   id | int | -

--# a column
describe db.t name;
desc db.t info.id
--> answer info_name, info_value:
-->   col_name | name
-->   data_type | string
-->   comment | -
--> answer info_name, info_value:
-->   col_name | id
-->   data_type | string
-->   comment | -

--# a column that is not there
describe db.t nme
--> InvalidSchema:
-->   table 'db.t' has no column 'nme', did you mean 'name'?

--# a database
describe database db;
desc schema extended lakelog.other;
describe database of_spark
--> spark:
-->   describe database of_spark
--> answer info_name, info_value:
-->   Catalog Name | lakelog
-->   Namespace Name | db
--> answer info_name, info_value:
-->   Catalog Name | lakelog
-->   Namespace Name | other

--# tables with what they are
show table extended in db like 'a*';
show table extended in db like 'x' partition (a = 1)
--> spark:
-->   show table extended in db like 'x' partition (a = 1)
--> answer namespace, tableName, isTemporary, information:
-->   db | arctic | false | id: int
-->   name: string
-->   # table:

--# what asks for no work
refresh table db.t;
refresh table spark_t
--> spark:
-->   refresh table spark_t

--# rows that Spark keeps
cache table db.t;
cache lazy table db.t options ('storageLevel' = 'disk_only');
uncache table db.t;
uncache table if exists db.nothing;
clear cache
--> cache db.t MEMORY_AND_DISK_DESER
--> cache lazily db.t disk_only
--> uncache db.t
--> uncache all tables
--> spark:
-->   clear cache

--# kept rows that are Spark's
cache table spark_t;
uncache table spark_t
--> spark:
-->   cache table spark_t
--> spark:
-->   uncache table spark_t

--# what cannot be kept
cache table db.t options ('serialized' = 'true')
--> UnsupportedStatement:
-->   line 1, column 26: unknown option 'serialized'; CACHE TABLE takes 'storageLevel'
-->   cache table db.t options ('serialized' = 'true')
-->                            ^

--# nothing to let go
uncache table db.nothing
--> NotFound:
-->   table or view 'db.nothing' does not exist in database 'db'

--# a table that is dropped is kept no more
drop table db.t
--> uncache db.t
--> drop table db.t

--# what is not done to files
msck repair table db.t
--> UnsupportedStatement:
-->   line 1, column 1: MSCK REPAIR TABLE is not supported for lakelog table 'db.t'; CREATE, ALTER and DROP TABLE, INSERT, UPDATE, DELETE, MERGE, SELECT, DESCRIBE and SHOW work
-->   msck repair table db.t
-->   ^

--# a view that hides a table is cached by Spark
use default;
cache table shadow;
uncache table shadow
--> spark:
-->   cache table shadow
--> spark:
-->   uncache table shadow
