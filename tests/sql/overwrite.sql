--# the whole table, or what the rows have
insert overwrite table other.p select * from sourceTable;
insert overwrite other.p /*+ OPTIONS('emit.mode'='file') */ values (date '2024-01-31', 1, 2, 'a')
--> insert overwrite other.p:
-->   select * from sourceTable
--> insert overwrite other.p emit.mode=file:
-->   values (date '2024-01-31', 1, 2, 'a')

--# a partition
insert overwrite other.p partition (Day = date '2024-01-31', hour = -1) select id, name from sourceTable;
insert overwrite table other.p partition (day = '2024-01-31', hour) (name, hour, id) values ('a', 1, 2);
insert into other.p partition (day = null) select 1, 2, 'a'
--> insert overwrite other.p partition {'day': '2024-01-31', 'hour': '-1'} (id, name):
-->   select id, name from sourceTable
--> insert overwrite other.p partition {'day': '2024-01-31'} (name, hour, id):
-->   values ('a', 1, 2)
--> insert into other.p partition {'day': None} (id, name, hour):
-->   select 1, 2, 'a'

--# PARTITION of a column that is none
insert overwrite other.p partition (dya = 'a') select 1
--> InvalidSchema:
-->   'dya' is not a partition column of table 'other.p', did you mean 'day'? Its partition columns: day, hour

--# PARTITION twice of a column
insert overwrite other.p partition (day = '2024-01-31', DAY) select 1
--> UnsupportedStatement:
-->   line 1, column 57: column 'DAY' is named twice
-->   insert overwrite other.p partition (day = '2024-01-31', DAY) select 1
-->                                                           ^

--# PARTITION without a value
insert overwrite other.p partition (day = hour) select 1
--> UnsupportedStatement:
-->   line 1, column 43: expected a value, found 'hour'
-->   insert overwrite other.p partition (day = hour) select 1
-->                                             ^

--# TRUNCATE
truncate table other.p;
truncate table p /*+ OPTIONS('emit.mode'='file') */ partition (day = '2024-01-31', hour = 5);
truncate table spark_t
--> truncate other.p {}
--> NotFound:
-->   table or view 'p' does not exist in database 'default'

--# TRUNCATE in the current database
use other;
truncate table p
--> truncate other.p {}

--# TRUNCATE of a partition without a value
truncate table other.p partition (day)
--> UnsupportedStatement:
-->   line 1, column 38: expected '=' and a value, found ')'
-->   truncate table other.p partition (day)
-->                                        ^

--# DROP PARTITION
alter table other.p drop partition (day = '2024-01-31', hour = 1), partition (day = '2024-02-01', hour = 2);
alter table other.p drop if exists partition (day = '2024-01-31', hour = 5) purge;
alter table other.p /*+ OPTIONS('emit.mode'='file') */ drop partition (day = '2024-01-31', hour = true);
alter table spark_t drop partition (hour = 1)
--> drop partitions of other.p [{'day': '2024-01-31', 'hour': '1'}, {'day': '2024-02-01', 'hour': '2'}]
--> drop partitions of other.p [{'day': '2024-01-31', 'hour': '5'}] if exists
--> drop partitions of other.p [{'day': '2024-01-31', 'hour': 'true'}] emit.mode=file
--> spark:
-->   alter table spark_t drop partition (hour = 1)

--# DROP PARTITION and a second thing
alter table other.p drop partition (day = '2024-01-31'), (hour = 1)
--> UnsupportedStatement:
-->   line 1, column 58: expected PARTITION (…), found '('
-->   alter table other.p drop partition (day = '2024-01-31'), (hour = 1)
-->                                                            ^

--# DROP PARTITION of an unknown table
alter table db.x drop partition (a = 1)
--> NotFound:
-->   table or view 'db.x' does not exist in database 'db'

--# DELETE
delete from other.p where day = date'2024-01-31' and hour > 5;
delete from other.p /*+ OPTIONS('emit.mode'='file') */;
delete from spark_t where hour = 1
--> delete from other.p day = 2024-01-31 and hour > 5
--> delete from other.p None emit.mode=file
--> spark:
-->   delete from spark_t where hour = 1

--# DELETE with something else
delete from other.p hour = 1
--> UnsupportedStatement:
-->   line 1, column 26: expected the end of the statement, found '='
-->   delete from other.p hour = 1
-->                            ^

--# ANALYZE
analyze table db.t compute statistics;
analyze table db.t compute statistics for all columns;
analyze table db.t compute statistics for columns ID, name;
analyze table spark_t compute statistics
--> analyze db.t []
--> analyze db.t None
--> analyze db.t ['id', 'name']
--> spark:
-->   analyze table spark_t compute statistics

--# ANALYZE without what
analyze table db.t
--> UnsupportedStatement:
-->   line 1, column 19: expected COMPUTE, found the end of the statement
-->   analyze table db.t
-->                     ^
