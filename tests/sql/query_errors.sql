-- Queries that are refused.

--# an unknown table, with the nearest one
select id from db.arctik
--> NotFound:
-->   table or view 'db.arctik' does not exist in database 'db', did you mean 'arctic'?

--# an unknown table of the current database
select id from hom
--> NotFound:
-->   table or view 'hom' does not exist in database 'default', did you mean 'home'?

--# an unknown database
select id from nowhere.t
--> NotFound:
-->   table 'nowhere.t' does not exist: there is no database 'nowhere', did you mean 'other'?

--# a path is Spark's to judge
select id from parquet.`/data/t`
--> query:
-->   select id from parquet.`/data/t`

--# time travel to a time that has to be computed
select 1 from db.u u join db.t timestamp as of u.uid x on u.id = x.id
--> UnsupportedStatement:
-->   line 1, column 48: time travel needs a plain value here, as in TIMESTAMP AS OF '2024-01-31 12:00:00'
-->   select 1 from db.u u join db.t timestamp as of u.uid x on u.id = x.id
-->                                                  ^

--# a parenthesis that is never closed
select id from db.t where (id = 1
--> UnsupportedStatement:
-->   line 1, column 27: this '(' is never closed
-->   select id from db.t where (id = 1
-->                             ^

--# a parenthesis too many
select id) from db.t
--> UnsupportedStatement:
-->   line 1, column 10: this ')' has no '(' before it
-->   select id) from db.t
-->            ^

--# a string that is not closed
select 'a from db.t
--> UnsupportedStatement:
-->   line 1, column 8: this string is not closed, expected '
-->   select 'a from db.t
-->          ^

--# what neither lakelog nor Spark understands points into the user's text
select id from db.t /*+ OPTIONS('read.mode'='log') */
where id = = SPARK_REFUSES
--> UnsupportedStatement:
-->   line 2, column 12: this query cannot be parsed from here
-->   where id = = SPARK_REFUSES
-->              ^
-->   Spark: [PARSE_SYNTAX_ERROR] Syntax error

--# what only Spark understands reads all columns
select id from db.t lateral view explode(tags) e as z, lateral (select 1 from other.t as o, db.u where id = 2)
--> query:
-->   select id from v1 AS `t` lateral view explode(tags) e as z, lateral (select 1 from v2 as o, v3 AS `u` where id = 2)
-->   v1 = db.t [*]
-->   v2 = other.t [*]
-->   v3 = db.u [*]

--# a view that Spark would store
create or replace view db.v (a comment 'temporary') as select id from db.t
--> UnsupportedStatement:
-->   line 1, column 1: a view of lakelog tables lives as long as its session: write CREATE TEMPORARY VIEW, and a name without a database
-->   create or replace view db.v (a comment 'temporary') as select id from db.t
-->   ^

--# a view of Spark's tables alone is Spark's to judge
create view v as select id from spark_t
--> spark:
-->   create view v as select id from spark_t
