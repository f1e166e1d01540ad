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
--> insert into db.t:
-->   SELECT id, name, ts, tags, info, _row_kind FROM (SELECT id, name, ts, tags, info, _row_kind, row_number() OVER (PARTITION BY id ORDER BY _row_kind DESC) AS _lakelog_first FROM (SELECT t.id, t.name, t.ts, t.tags, t.info, '-D' AS _row_kind FROM v1  AS t WHERE (id = 1) UNION ALL SELECT *, '+I' AS _row_kind FROM (SELECT if(coalesce((id = 1), false), t.id, raise_error('INSERT INTO db.t REPLACE WHERE: a new row does not meet the condition, so a repetition of the statement would not replace it; filter such rows out or widen the condition')) AS id, t.name, t.ts, t.tags, t.info FROM (SELECT (t.id) AS id, CAST((t.name) AS string) AS name, (t.ts) AS ts, (t.tags) AS tags, (t.info) AS info FROM (select 1) AS t(id, name, ts, tags, info)) AS t))) WHERE _lakelog_first = 1 OR _row_kind = '+I'
-->   v1 = db.t [id, name, ts, tags, info] read.mode=file

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
-->   line 1, column 18: only a hint OPTIONS('key'='value', …) is allowed here
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

--# replace where, in a table without a key
insert into db.arctic replace where arctic.id in (select id from db.u) or name = 'x' values (1, 'x'), (null, 'x') -- end
--> files of db.arctic:
-->   SELECT DISTINCT input_file_name() AS _lakelog_file FROM v1  AS arctic WHERE (arctic.id in (select id from v2 AS `u`) or name = 'x')
-->   v1 = db.arctic [id, name] read.mode=file
-->   v2 = db.u [id]
--> in place of ['f1', 'f2'] of db.arctic:
-->   SELECT arctic.id, arctic.name, CAST(NULL AS STRING) AS _row_kind FROM v3  AS arctic WHERE NOT coalesce((arctic.id in (select id from v4 AS `u`) or name = 'x'), false) UNION ALL SELECT *, '+I' AS _row_kind FROM (SELECT if(coalesce((arctic.id in (select id from v5 AS `u`) or name = 'x'), false), arctic.id, raise_error('INSERT INTO db.arctic REPLACE WHERE: a new row does not meet the condition, so a repetition of the statement would not replace it; filter such rows out or widen the condition')) AS id, arctic.name FROM (SELECT (arctic.id) AS id, CAST((arctic.name) AS string) AS name FROM (values (1, 'x'), (null, 'x')) AS arctic(id, name)) AS arctic)
-->   v3 = db.arctic [id, name] read.mode=file scan.data-files=f1,f2
-->   v4 = db.u [id]
-->   v5 = db.u [id]

--# replace where by name, and behind WITH
insert into db.arctic by name replace where id = 1 select 'x' as name, id from db.t;
with c as (select 1 as id) insert into db.arctic (id) replace where db.arctic.id = 1 select id from c
--> columns of:
-->   select 'x' as name, id from v1 AS `t`
-->   v1 = db.t [id]
--> files of db.arctic:
-->   SELECT DISTINCT input_file_name() AS _lakelog_file FROM v2  AS arctic WHERE (id = 1)
-->   v2 = db.arctic [id] read.mode=file
--> in place of ['f1', 'f2'] of db.arctic:
-->   SELECT arctic.id, arctic.name, CAST(NULL AS STRING) AS _row_kind FROM v3  AS arctic WHERE NOT coalesce((id = 1), false) UNION ALL SELECT *, '+I' AS _row_kind FROM (SELECT if(coalesce((id = 1), false), arctic.id, raise_error('INSERT INTO db.arctic REPLACE WHERE: a new row does not meet the condition, so a repetition of the statement would not replace it; filter such rows out or widen the condition')) AS id, arctic.name FROM (SELECT (arctic.id) AS id, CAST((arctic.name) AS string) AS name FROM (select 'x' as name, id from v4 AS `t`) AS arctic(id, name)) AS arctic)
-->   v3 = db.arctic [id, name] read.mode=file scan.data-files=f1,f2
-->   v4 = db.t [id]
--> files of db.arctic:
-->   SELECT DISTINCT input_file_name() AS _lakelog_file FROM v5  AS arctic WHERE (arctic.id = 1)
-->   v5 = db.arctic [id] read.mode=file
--> in place of ['f1', 'f2'] of db.arctic:
-->   SELECT arctic.id, arctic.name, CAST(NULL AS STRING) AS _row_kind FROM v6  AS arctic WHERE NOT coalesce((arctic.id = 1), false) UNION ALL SELECT *, '+I' AS _row_kind FROM (SELECT if(coalesce((arctic.id = 1), false), arctic.id, raise_error('INSERT INTO db.arctic REPLACE WHERE: a new row does not meet the condition, so a repetition of the statement would not replace it; filter such rows out or widen the condition')) AS id, arctic.name FROM (SELECT (arctic.id) AS id, CAST((NULL) AS string) AS name FROM (with c as (select 1 as id)                                                           select id from c) AS arctic(id)) AS arctic)
-->   v6 = db.arctic [id, name] read.mode=file scan.data-files=f1,f2

--# replace where is not for overwrites and partitions
insert overwrite db.arctic replace where id = 1 select 1
--> UnsupportedStatement:
-->   line 1, column 28: REPLACE WHERE selects the rows to replace: write INSERT INTO without PARTITION
-->   insert overwrite db.arctic replace where id = 1 select 1
-->                              ^

--# replace where without a query
insert into db.arctic replace where id = 1
--> UnsupportedStatement:
-->   line 1, column 43: expected SELECT, VALUES or a list of columns, found the end of the statement
-->   insert into db.arctic replace where id = 1
-->                                             ^

--# DEFAULT among the values
insert into db.t (id, name) values (1, default), (2, concat('a', 'default')), (DEFAULT, (default));
insert into spark_t values (1, default)
--> insert into db.t (id, name):
-->   values (1, NULL   ), (2, concat('a', 'default')), (NULL   , (default))
--> spark:
-->   insert into spark_t values (1, default)

--# new columns of the query
insert with schema evolution into db.arctic by name select 4 as id, 'a' as name
--> columns of:
-->   select 4 as id, 'a' as name
--> columns of:
-->   select 4 as id, 'a' as name
--> insert into db.arctic (id, name):
-->   select 4 as id, 'a' as name

--# new columns only by name
insert with schema evolution into db.arctic select 4, 5
--> UnsupportedStatement:
-->   line 1, column 45: new columns take their names from the query: write WITH SCHEMA EVOLUTION … BY NAME
-->   insert with schema evolution into db.arctic select 4, 5
-->                                               ^

--# TABLE as a query
insert into db.arctic table db.arctic;
table db.t;
(table db.t) union all table db.u
--> insert into db.arctic:
-->   table v1
-->   v1 = db.arctic [*]
--> query:
-->   table v2
-->   v2 = db.t [*]
--> query:
-->   (table v3) union all table v4
-->   v3 = db.t [*]
-->   v4 = db.u [*]

--# several inserts from one source
from (select * from db.t) x
insert into db.arctic select x.id, x.name where x.id > 1
insert overwrite db.u (id) select id
--> insert into db.arctic:
-->   from (select * from v1 AS `t`) x select x.id, x.name where x.id > 1
-->   v1 = db.t [id, name]
--> insert overwrite db.u (id):
-->   from (select * from v2 AS `t`) x select id
-->   v2 = db.t [id]

--# several inserts, one without a query
from db.t insert into db.arctic select id, name insert into db.arctic values (1, 'a')
--> UnsupportedStatement:
-->   line 1, column 49: an INSERT after FROM needs its SELECT
-->   from db.t insert into db.arctic select id, name insert into db.arctic values (1, 'a')
-->                                                   ^
