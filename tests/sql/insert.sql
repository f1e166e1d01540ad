-- INSERT INTO.

--# values
insert into db.t values (1, 'a', timestamp'2024-01-01', null, null), (2, 'b;', now(), array('x'), null)
--> insert into db.t:
-->   values (1, 'a', timestamp'2024-01-01', null, null), (2, 'b;', now(), array('x'), null)

--# some columns, in their own order and any case
insert into db.t (name, ID) select 'a', 1
--> insert into db.t (name, id):
-->   select 'a', 1

--# from a lakelog table, keeping the user's text
insert into table db.u
  select  id as uid, /* twice */ id, 1.5, 'x', name from db.t /*+ OPTIONS('read.mode'='log') */
--> insert into db.u:
-->   select  id as uid, /* twice */ id, 1.5, 'x', name from v1 AS `t`
-->   v1 = db.t [id, name] read.mode=log

--# options of the write before and behind the columns
insert into db.t /*+ OPTIONS('emit.mode'='log') */ (id) select id from db.u;
insert into db.t (id) /*+ OPTIONS('emit.mode'='log') */ select id from db.u;
insert into db.t with ('arctic.emit.mode'='log') select * from sourceTable
--> insert into db.t (id) emit.mode=log:
-->   select id from v1 AS `u`
-->   v1 = db.u [id]
--> insert into db.t (id) emit.mode=log:
-->   select id from v2 AS `u`
-->   v2 = db.u [id]
--> insert into db.t emit.mode=log:
-->   select * from sourceTable

--# a query with its own WITH, and one before INSERT
insert into db.arctic with c as (select id, name from db.t) select * from c;
with c as (select id, name from db.t)
insert into db.arctic (id, name)
select * from c
--> insert into db.arctic:
-->   with c as (select id, name from v1 AS `t`) select * from c
-->   v1 = db.t [id, name]
--> insert into db.arctic (id, name):
-->   with c as (select id, name from v2 AS `t`)
-->
-->   select * from c
-->   v2 = db.t [id, name]

--# parenthesised and from-first queries
insert into db.arctic (select id, name from db.t);
insert into db.arctic from db.t select id, name
--> insert into db.arctic:
-->   (select id, name from v1 AS `t`)
-->   v1 = db.t [id, name]
--> insert into db.arctic:
-->   from v2 AS `t` select id, name
-->   v2 = db.t [id, name]

--# into a table of Spark's from a lakelog table
insert into spark_t select id from db.t;
insert overwrite spark_t select id from db.t;
insert into spark_t values (1)
--> query:
-->   insert into spark_t select id from v1 AS `t`
-->   v1 = db.t [id]
--> query:
-->   insert overwrite spark_t select id from v2 AS `t`
-->   v2 = db.t [id]
--> spark:
-->   insert into spark_t values (1)

--# by name
insert into db.t by name select 1 as id
--> columns of:
-->   select 1 as id
--> insert into db.t (id, name):
-->   select 1 as id

--# overwrite by name
insert overwrite table db.t by name select 1 as id
--> columns of:
-->   select 1 as id
--> insert overwrite db.t (id, name):
-->   select 1 as id

--# by name, the partition's columns by PARTITION
insert into other.p partition (day = '2026-01-01', hour = 3) by name select 1 as id, 'a' as name
--> columns of:
-->   select 1 as id, 'a' as name
--> insert into other.p partition {'day': '2026-01-01', 'hour': '3'} (id, name):
-->   select 1 as id, 'a' as name

--# by name into a table of Spark's
insert into spark_t by name select id from db.t
--> query:
-->   insert into spark_t by name select id from v1 AS `t`
-->   v1 = db.t [id]

--# replace where
insert into db.t replace where id = 1 select 1
--> UnsupportedStatement:
-->   line 1, column 18: REPLACE is not supported; INSERT INTO replaces the rows of the same primary key, INSERT OVERWRITE … PARTITION whole partitions
-->   insert into db.t replace where id = 1 select 1
-->                    ^

--# an unknown column
insert into db.t (id, nme) values (1, 'a')
--> InvalidSchema:
-->   table 'db.t' has no column 'nme', did you mean 'name'? Its columns: id, name, ts, tags, info

--# a column twice
insert into db.t (id, ID) values (1, 2)
--> InvalidSchema:
-->   column 'id' is named twice in INSERT INTO db.t (…)

--# an unknown table
insert into db.tt values (1)
--> NotFound:
-->   table or view 'db.tt' does not exist in database 'db', did you mean 't'?

--# an unknown option
insert into db.t /*+ OPTIONS('emit.mod'='log') */ values (1)
--> InvalidOption:
-->   unknown option 'emit.mod' = 'log', did you mean 'emit.mode'?

--# another hint
insert into db.t /*+ BROADCAST(x) */ select 1
--> UnsupportedStatement:
-->   line 1, column 18: only a hint OPTIONS('key'='value', …) can stand here
-->   insert into db.t /*+ BROADCAST(x) */ select 1
-->                    ^

--# no query
insert into db.t (id, name)
--> UnsupportedStatement:
-->   line 1, column 28: expected SELECT, VALUES or a list of columns, found the end of the statement
-->   insert into db.t (id, name)
-->                              ^

--# no INTO
insert db.t values (1)
--> UnsupportedStatement:
-->   line 1, column 8: expected INTO, found 'db'
-->   insert db.t values (1)
-->          ^
