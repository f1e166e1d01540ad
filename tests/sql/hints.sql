-- Options of a read, in the query.

--# behind the name
select id from db.t /*+ OPTIONS('read.mode'='log') */ where id > 1
--> query:
-->   select id from v1 AS `t`  where id > 1
-->   v1 = db.t [id] read.mode=log

--# behind the name and before the alias
select x.id from db.t /*+ OPTIONS('read.mode'='log') */ as x;
select x.id from db.t /*+ OPTIONS('read.mode'='log') */ x
--> query:
-->   select x.id from v1  as x
-->   v1 = db.t [id] read.mode=log
--> query:
-->   select x.id from v2  x
-->   v2 = db.t [id] read.mode=log

--# behind the alias
select x.id from db.t as x /*+ OPTIONS('read.mode'='log') */ where x.id > 1;
select x.id from db.t x/*+OPTIONS("read.mode"="log")*/where x.id > 1
--> query:
-->   select x.id from v1 as x  where x.id > 1
-->   v1 = db.t [id] read.mode=log
--> query:
-->   select x.id from v2 x where x.id > 1
-->   v2 = db.t [id] read.mode=log

--# one hint a table
select a.id from db.t /*+ OPTIONS('read.mode'='log') */ a join db.u b /*+ OPTIONS('scan.limit'='5') */ on a.id = b.id
--> query:
-->   select a.id from v1  a join v2 b  on a.id = b.id
-->   v1 = db.t [id] read.mode=log
-->   v2 = db.u [id] scan.limit=5

--# two hints on one table
select id from db.t /*+ OPTIONS('read.mode'='log') */ /*+ OPTIONS('scan.limit'='5') */
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] read.mode=log scan.limit=5

--# options of many kinds of values, over lines
select id from db.t /*+ options (
    'read.mode' = 'log',
    scan.limit = 3
) */
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] read.mode=log scan.limit=3

--# an old name of an option
select id from db.t /*+ OPTIONS('arctic.read.mode'='log') */
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] read.mode=log

--# as Spark writes it
select id from db.t with ('read.mode' = 'log') where id > 1;
select x.id from db.t with ('read.mode' = 'log') as x
--> query:
-->   select id from v1 AS `t`  where id > 1
-->   v1 = db.t [id] read.mode=log
--> query:
-->   select x.id from v2  as x
-->   v2 = db.t [id] read.mode=log

--# in a subquery and in a common table expression
with c as (select * from db.t /*+ OPTIONS('read.mode'='log') */) select id from c;
select * from (select id from db.t /*+ OPTIONS('read.mode'='log') */) x
--> query:
-->   with c as (select * from v1 AS `t` ) select id from c
-->   v1 = db.t [id] read.mode=log
--> query:
-->   select * from (select id from v2 AS `t` ) x
-->   v2 = db.t [id] read.mode=log

--# behind a comment
select id from db.t -- the log
  /* of it */ /*+ OPTIONS('read.mode'='log') */
--> query:
-->   select id from v1 AS `t` -- the log
-->     /* of it */
-->   v1 = db.t [id] read.mode=log

--# a string with the end of a comment in it
select id from db.t /*+ OPTIONS('properties.x'='*/ a') */
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] properties.x=*/ a

--# an unknown option
select id from db.t /*+ OPTIONS('read.mod'='log') */
--> InvalidOption:
-->   unknown option 'read.mod' = 'log', did you mean 'read.mode'?

--# a bad value
select id from db.t /*+ OPTIONS('read.mode'='fast') */
--> InvalidOption:
-->   option 'read.mode' = 'fast' must be one of: file, log

--# an option of CREATE TABLE
select id from db.t /*+ OPTIONS('bucket'='3') */
--> InvalidOption:
-->   option 'bucket' cannot be set here; it belongs to: table

--# a hint that is malformed
select id from db.t
/*+ OPTIONS('read.mode'='log' 'x'='y'='z') */
--> UnsupportedStatement:
-->   line 2, column 34: expected ',' or ')' after option 'read.mode', found '='
-->   /*+ OPTIONS('read.mode'='log' 'x'='y'='z') */
-->                                    ^

--# a hint that is not closed
select id from db.t /*+ OPTIONS('read.mode'='log')
--> UnsupportedStatement:
-->   line 1, column 21: this hint is not closed, expected */
-->   select id from db.t /*+ OPTIONS('read.mode'='log')
-->                       ^

--# an option twice
select id from db.t /*+ OPTIONS('read.mode'='log') */ /*+ OPTIONS('read.mode'='file') */
--> UnsupportedStatement:
-->   line 1, column 55: option 'read.mode' is given twice
-->   select id from db.t /*+ OPTIONS('read.mode'='log') */ /*+ OPTIONS('read.mode'='file') */
-->                                                         ^

--# a hint on a table of Spark's
select id from spark_t /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 24: a hint OPTIONS(…) must directly follow the name or alias of a lakelog table, as in FROM db.t /*+ OPTIONS('read.mode'='log') */; here it follows something else
-->   select id from spark_t /*+ OPTIONS('read.mode'='log') */
-->                          ^

--# a hint on a subquery
select id from (select id from db.t) x /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 40: a hint OPTIONS(…) must directly follow the name or alias of a lakelog table, as in FROM db.t /*+ OPTIONS('read.mode'='log') */; here it follows something else
-->   select id from (select id from db.t) x /*+ OPTIONS('read.mode'='log') */
-->                                          ^

--# a hint behind SELECT
select /*+ OPTIONS('read.mode'='log') */ id from db.t
--> UnsupportedStatement:
-->   line 1, column 8: a hint OPTIONS(…) must directly follow the name or alias of a lakelog table, as in FROM db.t /*+ OPTIONS('read.mode'='log') */; here it follows something else
-->   select /*+ OPTIONS('read.mode'='log') */ id from db.t
-->          ^
