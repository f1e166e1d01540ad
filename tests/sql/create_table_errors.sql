-- CREATE TABLE that is refused: the error names the place or the value, and what to do.

--# an unsupported type
create table db.a (
  id int,
  span interval day
)
--> UnsupportedStatement:
-->   line 3, column 8: unsupported type 'interval'; these work: boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, varchar(n), char(n), bytes, binary, varbinary(n), date, time, timestamp, timestamp_ltz, timestamp_ntz, array<…>, map<…, …>, struct<…>, row<…>, multiset<…>, variant
-->     span interval day
-->          ^

--# a type that is not there
create table db.a (id, name string)
--> UnsupportedStatement:
-->   line 1, column 22: expected a type, found ','
-->   create table db.a (id, name string)
-->                        ^

--# a type without its length
create table db.a (name varchar)
--> UnsupportedStatement:
-->   line 1, column 32: varchar needs a length such as varchar(20); without a limit write string
-->   create table db.a (name varchar)
-->                                  ^

--# a precision out of range
create table db.a (p decimal(40, 2))
--> UnsupportedStatement:
-->   line 1, column 30: decimal(40, 2): the precision must be 1 to 38, and the scale no larger than the precision
-->   create table db.a (p decimal(40, 2))
-->                                ^

--# a comma too few
create table db.a (id int
  name string)
--> UnsupportedStatement:
-->   line 2, column 3: expected ',' or ')' after column 'id', found 'name'
-->     name string)
-->     ^

--# a comma too many
create table db.a (id int,)
--> UnsupportedStatement:
-->   line 1, column 27: expected a column name, found ')'
-->   create table db.a (id int,)
-->                             ^

--# a parenthesis that is not closed
create table db.a (id int, primary key (id)
--> UnsupportedStatement:
-->   line 1, column 44: expected ',' or ')' after column 'id', found the end of the statement
-->   create table db.a (id int, primary key (id)
-->                                              ^

--# a string that is not closed
create table db.a (id int) tblproperties ('bucket' = '1);
--> UnsupportedStatement:
-->   line 1, column 54: this string is not closed, expected '
-->   create table db.a (id int) tblproperties ('bucket' = '1);
-->                                                        ^

--# a comment that is not closed
create table db.a (id int) /* using lakelog
--> UnsupportedStatement:
-->   line 1, column 28: this comment is not closed, expected */
-->   create table db.a (id int) /* using lakelog
-->                              ^

--# the caret stands under the place behind Chinese text
create table db.a (id int comment '编号', name strin)
--> UnsupportedStatement:
-->   line 1, column 46: unsupported type 'strin'; these work: boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, varchar(n), char(n), bytes, binary, varbinary(n), date, time, timestamp, timestamp_ltz, timestamp_ntz, array<…>, map<…, …>, struct<…>, row<…>, multiset<…>, variant
-->   create table db.a (id int comment '编号', name strin)
-->                                                  ^

--# no columns
create table db.a using lakelog
--> UnsupportedStatement:
-->   line 1, column 32: table 'db.a' needs columns, such as (id int, name string, primary key (id))
-->   create table db.a using lakelog
-->                                  ^

--# two primary keys
create table db.a (id int primary key, v int, primary key (v))
--> UnsupportedStatement:
-->   line 1, column 47: the table has a primary key already; name all its columns in one primary key (a, b)
-->   create table db.a (id int primary key, v int, primary key (v))
-->                                                 ^

--# a duplicate column
create table db.a (id int, name string, id string)
--> InvalidSchema:
-->   column 'id' occurs twice: rename one of them

--# a primary key on an unknown column
create table db.a (id int, name string, primary key (nam))
--> InvalidSchema:
-->   unknown primary key column 'nam', did you mean 'name'? The table has: id, name

--# a primary key without the partition column
create table db.a (id int, dt string, primary key (id)) partitioned by (dt)
--> UnsupportedFeature:
-->   primary key (id) does not contain partition column 'dt': add it to the key

--# an unknown option
create table db.a (id int) tblproperties ('log-store.enable' = 'true')
--> InvalidOption:
-->   unknown option 'log-store.enable' = 'true', did you mean 'log-store.enabled'?

--# an option value that does not fit
create table db.a (id int) with ('bucket' = 'four')
--> InvalidOption:
-->   option 'bucket' = 'four' is not a valid int: invalid literal for int() with base 10: 'four'

--# an option that belongs to reads
create table db.a (id int) with ('read.mode' = 'log')
--> InvalidOption:
-->   option 'read.mode' cannot be set here; it belongs to: read

--# an option twice
create table db.a (id int) with ('bucket' = '1', 'bucket' = '2')
--> UnsupportedStatement:
-->   line 1, column 50: option 'bucket' is given twice
-->   create table db.a (id int) with ('bucket' = '1', 'bucket' = '2')
-->                                                    ^

--# an option without a value
create table db.a (id int) with ('bucket' = )
--> UnsupportedStatement:
-->   line 1, column 45: expected a value in quotes for option 'bucket', found ')'
-->   create table db.a (id int) with ('bucket' = )
-->                                               ^

--# a table that exists
create table db.t (id int)
--> AlreadyExists:
-->   table 'db.t' exists

--# a catalog that does not exist
create table hive.db.a (id int)
--> NotFound:
-->   catalog 'hive' does not exist. Known: lakelog, arctic, amoro, catalog

--# four parts
create table a.b.c.d (id int)
--> UnsupportedStatement:
-->   line 1, column 14: a name here has at most 3 parts, 'a.b.c.d' has 4
-->   create table a.b.c.d (id int)
-->                ^

--# a computed column
create table db.a (id int, twice as id * 2) with ()
--> UnsupportedStatement:
-->   line 1, column 34: column 'twice' is computed, which is not supported; compute it in the query or in a view
-->   create table db.a (id int, twice as id * 2) with ()
-->                                    ^

--# a default that is no value of the column
create table db.a (id int default 'seven') using lakelog
--> InvalidSchema:
-->   'seven' cannot be the default of column 'id' of type INT: write a value of this type as text, such as '0', '2024-01-31' or 'none', or array(…), map(…), named_struct(…) of such values. A time with a time zone has no default

--# a generated column
create table db.a (id int generated always as identity) using lakelog
--> UnsupportedStatement:
-->   line 1, column 27: GENERATED on column 'id' is not supported; remove it
-->   create table db.a (id int generated always as identity) using lakelog
-->                             ^

--# a partition transform
create table db.a (id int, ts timestamp) using arctic partitioned by (days(ts))
--> UnsupportedStatement:
-->   line 1, column 71: a partition is the value of a column: 'days(…)' is not supported; add a column that holds this value and partition by it
-->   create table db.a (id int, ts timestamp) using arctic partitioned by (days(ts))
-->                                                                         ^

--# another connector
create table src (id int) with ('connector' = 'socket')
--> UnsupportedStatement:
-->   line 1, column 1: 'connector' = 'socket' is not a lakelog table; leave the option out for a lakelog table, or read the other system with Spark into a temporary view
-->   create table src (id int) with ('connector' = 'socket')
-->   ^

--# create table as select has its columns from the query
create table db.a (id int) using lakelog as select * from db.t
--> UnsupportedStatement:
-->   line 1, column 42: the columns of CREATE TABLE … AS SELECT are the query's: leave out those in parentheses
-->   create table db.a (id int) using lakelog as select * from db.t
-->                                            ^

--# create table as select of a table that exists
create table if not exists db.u as select id from db.t;
create table db.u as select id from db.t
--> AlreadyExists:
-->   table 'db.u' exists already

--# the options of a table like another one
create table db.a like db.t tblproperties ('bukket' = '2')
--> InvalidOption:
-->   unknown option 'bukket' = '2', did you mean 'bucket'?

--# a table like one that is not there
create table db.a like db.tt
--> NotFound:
-->   table or view 'db.tt' does not exist in database 'db', did you mean 't'?

--# a location
create table db.a (id int) using lakelog location '/tmp/a'
--> UnsupportedStatement:
-->   line 1, column 42: LOCATION is not supported: a lakelog table is in the directory of its database in the warehouse
-->   create table db.a (id int) using lakelog location '/tmp/a'
-->                                            ^

--# the database is not made when the table is refused
create table nowhere.a (id int, id int)
--> InvalidSchema:
-->   column 'id' occurs twice: rename one of them

--# replace and if not exists
create or replace table if not exists db.t (id int) using lakelog
--> UnsupportedStatement:
-->   line 1, column 25: REPLACE and IF NOT EXISTS contradict each other: leave one of them out
-->   create or replace table if not exists db.t (id int) using lakelog
-->                           ^

--# replace what is not there
replace table db.nowhere (id int) using lakelog
--> NotFound:
-->   table or view 'db.nowhere' does not exist in database 'db'

--# external
create external table db.a (id int) using lakelog
--> UnsupportedStatement:
-->   line 1, column 8: EXTERNAL is not supported: a lakelog table is always in its warehouse; leave the word out
-->   create external table db.a (id int) using lakelog
-->          ^

--# a partition column with its type, twice
create table db.hive (id int, day date) using lakelog partitioned by (day date)
--> UnsupportedStatement:
-->   line 1, column 71: column 'day' is already in the column list: write only its name here
-->   create table db.hive (id int, day date) using lakelog partitioned by (day date)
-->                                                                         ^

--# CLUSTER BY
create table t (id int) cluster by (id)
--> UnsupportedStatement:
-->   line 1, column 25: CLUSTER BY is not supported: rows without a key are sorted by OPTIMIZE … ZORDER BY or CALL sys.compact(order_strategy => …), others by key
-->   create table t (id int) cluster by (id)
-->                           ^

--# a clone
create table t shallow clone db.t
--> UnsupportedStatement:
-->   line 1, column 16: CLONE is not supported: CREATE TABLE … AS SELECT copies a table, CALL sys.create_branch shares its files
-->   create table t shallow clone db.t
-->                  ^
