--# the whole table, or what the rows have
insert overwrite table db.u select * from sourceTable;
insert overwrite db.u /*+ OPTIONS('emit.mode'='file') */ values (1)
--> insert overwrite db.u:
-->   select * from sourceTable
--> insert overwrite db.u emit.mode=file:
-->   values (1)

--# a partition
insert overwrite db.u partition (Name = date '2024-01-31', id = -1) select id, name from sourceTable;
insert overwrite table db.u partition (name = '2024-01-31', id) (uid, id, amount) values ('a', 1, 2);
insert into db.u partition (name = null) select 1, 2, 'a'
--> insert overwrite db.u partition {'name': '2024-01-31', 'id': '-1'} (uid, amount, order):
-->   select id, name from sourceTable
--> insert overwrite db.u partition {'name': '2024-01-31'} (uid, id, amount):
-->   values ('a', 1, 2)
--> insert into db.u partition {'name': None} (uid, id, amount, order):
-->   select 1, 2, 'a'

--# PARTITION of a column that is none
insert overwrite db.u partition (nam = 'a') select 1
--> InvalidSchema:
-->   'nam' is no partition column of table 'db.u', did you mean 'name'? Its partition columns: name, id

--# PARTITION twice of a column
insert overwrite db.u partition (name = '2024-01-31', NAME) select 1
--> UnsupportedStatement:
-->   line 1, column 55: column 'NAME' is named twice
-->   insert overwrite db.u partition (name = '2024-01-31', NAME) select 1
-->                                                         ^

--# PARTITION without a value
insert overwrite db.u partition (name = uid) select 1
--> UnsupportedStatement:
-->   line 1, column 41: expected a value, found 'uid'
-->   insert overwrite db.u partition (name = uid) select 1
-->                                           ^

--# TRUNCATE
truncate table db.u;
truncate table u /*+ OPTIONS('emit.mode'='file') */ partition (name = '2024-01-31', id = 5);
truncate table spark_t
--> truncate db.u {}
--> NotFound:
-->   table or view 'u' does not exist in database 'default'

--# TRUNCATE in the current database
use db;
truncate table u
--> truncate db.u {}

--# TRUNCATE of a partition without a value
truncate table db.u partition (name)
--> UnsupportedStatement:
-->   line 1, column 36: expected '=' and a value, found ')'
-->   truncate table db.u partition (name)
-->                                      ^

--# DROP PARTITION
alter table db.u drop partition (name = '2024-01-31'), partition (id = 1);
alter table db.u drop if exists partition (name = '2024-01-31', id = 5) purge;
alter table db.u /*+ OPTIONS('emit.mode'='file') */ drop partition (id = true);
alter table spark_t drop partition (id = 1)
--> drop partitions of db.u [{'name': '2024-01-31'}, {'id': '1'}]
--> drop partitions of db.u [{'name': '2024-01-31', 'id': '5'}] if exists
--> drop partitions of db.u [{'id': 'true'}] emit.mode=file
--> spark:
-->   alter table spark_t drop partition (id = 1)

--# DROP PARTITION and a second thing
alter table db.u drop partition (name = '2024-01-31'), (id = 1)
--> UnsupportedStatement:
-->   line 1, column 56: expected PARTITION (…), found '('
-->   alter table db.u drop partition (name = '2024-01-31'), (id = 1)
-->                                                          ^

--# DROP PARTITION of an unknown table
alter table db.x drop partition (a = 1)
--> NotFound:
-->   table or view 'db.x' does not exist in database 'db'

--# DELETE
delete from db.u where name = date'2024-01-31' and id > 5;
delete from db.u /*+ OPTIONS('emit.mode'='file') */;
delete from spark_t where id = 1
--> delete from db.u name = date'2024-01-31' and id > 5
--> delete from db.u None emit.mode=file
--> spark:
-->   delete from spark_t where id = 1

--# DELETE with something else
delete from db.u id = 1
--> UnsupportedStatement:
-->   line 1, column 18: expected WHERE, found 'id'
-->   delete from db.u id = 1
-->                    ^

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
