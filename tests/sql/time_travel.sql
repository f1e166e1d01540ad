--# a version is a snapshot id or a tag
select id from db.t version as of 3;
select id from db.t for system_version as of 'monthly' where id = 1
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] scan.version=3
--> query:
-->   select id from v2 AS `t`  where id = 1
-->   v2 = db.t [*] scan.version=monthly

--# a time is text
select id from db.t timestamp as of '2024-01-31 12:00:00' x join db.u for system_time as of timestamp'2024-02-01' on x.id = u.id
--> query:
-->   select id from v1  x join v2 AS `u`  on x.id = u.id
-->   v1 = db.t [id] scan.timestamp=2024-01-31 12:00:00
-->   v2 = db.u [id] scan.timestamp=2024-02-01

--# columns are those of that time
select id from db.t version as of 'before tags';
select id, tags from db.t version as of 'before tags'
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] scan.version=before tags
--> InvalidSchema:
-->   line 2, column 12: the query has no column 'tags'. Columns of t: id, name
-->   select id, tags from db.t version as of 'before tags'
-->              ^

--# a hint stands for a version, too
select t$snapshots.total from db.t$snapshots /*+ OPTIONS('scan.tag-name'='monthly') */
--> query:
-->   select `t$snapshots`.total from v1 AS `t$snapshots`
-->   v1 = db.t$snapshots [total] scan.tag-name=monthly

--# a time is computed
select id from db.t timestamp as of current_timestamp() - interval 2 days where id = 1;
select id from db.t for timestamp as of (current_date() - 1) as x join db.u timestamp as of date_sub(current_date(), 1) y on x.id = y.id
--> millis of current_timestamp() - interval 2 days
--> query:
-->   select id from v1 AS `t`  where id = 1
-->   v1 = db.t [id] scan.timestamp-millis=1000
--> millis of (current_date() - 1)
--> millis of date_sub(current_date(), 1)
--> query:
-->   select id from v2  as x join v3  y on x.id = y.id
-->   v2 = db.t [id] scan.timestamp-millis=1000
-->   v3 = db.u [id] scan.timestamp-millis=1000

--# changes between versions, both ends included
select * from table_changes('db.t', 3, 5) where _row_kind = '+I';
use db; select c.id, u.name from u join table_changes("db.t", 0, 2) as c on c.id = u.id, table_changes('t', 2, 2) d
--> query:
-->   select * from v1 AS `t` where _row_kind = '+I'
-->   v1 = db.t [*] incremental-between=2,5
--> query:
-->   select c.id, u.name from v2 AS `u` join v3 as c on c.id = u.id, v4 d
-->   v2 = db.u [id, name]
-->   v3 = db.t [*] incremental-between=0,2
-->   v4 = db.t [*] incremental-between=1,2

--# changes between times
select id from table_changes('db.t', '2024-01-31 12:00:00+00:00', '2024-02-01 00:00:00+00:00') t
--> query:
-->   select id from v1 t
-->   v1 = db.t [*] incremental-between-timestamp=1706702399999,1706745600000

--# a column of that name, and a function of Spark's
select table_changes, f.id from db.t join range(3) f on t.id = f.id
--> query:
-->   select table_changes, f.id from v1 AS `t` join range(3) f on t.id = f.id
-->   v1 = db.t [id]

--# changes of what is Spark's
select * from table_changes('spark_t', 1, 2)
--> UnsupportedStatement:
-->   line 1, column 15: 'spark_t' is a Spark table: changes are available for tables of this lake only
-->   select * from table_changes('spark_t', 1, 2)
-->                 ^

--# changes of nothing
select * from table_changes('db.nothing', 1, 2)
--> NotFound:
-->   table or view 'db.nothing' does not exist in database 'db'

--# no snapshot and no time
select * from table_changes('db.t', id)
--> UnsupportedStatement:
-->   line 1, column 37: 'id' is neither a snapshot nor a time: write table_changes('db.t', 3) or ('db.t', 3, 5), or two times as text
-->   select * from table_changes('db.t', id)
-->                                       ^

--# one end of each kind
select * from table_changes('db.t', 1, '2024-01-31')
--> UnsupportedStatement:
-->   line 1, column 40: both ends must be of the same kind: write table_changes('db.t', 3) or ('db.t', 3, 5), or two times as text
-->   select * from table_changes('db.t', 1, '2024-01-31')
-->                                          ^

--# no begin
select * from table_changes('db.t')
--> UnsupportedStatement:
-->   line 1, column 35: write table_changes('db.t', 3) or ('db.t', 3, 5), or two times as text
-->   select * from table_changes('db.t')
-->                                     ^

--# an expression
select * from table_changes('db.t', 1 + 1)
--> UnsupportedStatement:
-->   line 1, column 39: write table_changes('db.t', 3) or ('db.t', 3, 5), or two times as text
-->   select * from table_changes('db.t', 1 + 1)
-->                                         ^

--# names that are none, and a range that is not there
select id
from table_changes('db..t', 1)
--> UnsupportedStatement:
-->   line 2, column 20: 'db..t' is not a table name
-->   from table_changes('db..t', 1)
-->                      ^

--# a snapshot that is to come
select id from table_changes('db.t', 1, 99)
--> UnsupportedStatement:
-->   line 1, column 41: table 'db.t' has no snapshot 99 yet; its newest one is 9
-->   select id from table_changes('db.t', 1, 99)
-->                                           ^

--# a begin behind the newest snapshot
select id from table_changes('db.t', 11)
--> UnsupportedStatement:
-->   line 1, column 38: table 'db.t' has no snapshot 11 yet; its newest one is 9
-->   select id from table_changes('db.t', 11)
-->                                        ^

--# no time
select id from table_changes('db.t', 'yesterday')
--> UnsupportedStatement:
-->   line 1, column 38: 'yesterday' is not a time: write '2024-01-31 12:00:00', or ms since 1970
-->   select id from table_changes('db.t', 'yesterday')
-->                                        ^

--# times the wrong way round
select id from table_changes('db.t', '2024-01-31', '2024-01-30')
--> UnsupportedStatement:
-->   line 1, column 52: the range ends before it starts: swap the two times
-->   select id from table_changes('db.t', '2024-01-31', '2024-01-30')
-->                                                      ^

--# two ways to say which changes
select id from table_changes('db.t', 1) version as of 3
--> UnsupportedStatement:
-->   line 1, column 16: table_changes selects the changes to read: remove 'scan.version'
-->   select id from table_changes('db.t', 1) version as of 3
-->                  ^

--# a function of a row
select 1, table_changes('x', 1) from db.t
--> query:
-->   select 1, table_changes('x', 1) from v1 AS `t`
-->   v1 = db.t [id]

--# a database that is not there
select 1 from table_changes('nodb.x', 1)
--> NotFound:
-->   table 'nodb.x' does not exist: there is no database 'nodb', did you mean 'db'?
