--# an update of a table with a key
update db.t set name = upper(name), ts = (select max(ts) from db.t) where id in (1, 2)
--> insert into db.t:
-->   SELECT t.id AS id, CAST((CAST((upper(name)) AS string)) AS string) AS name, (CAST(((select max(ts) from v3 AS `t`)) AS timestamp)) AS ts, t.tags AS tags, t.info AS info, '+U' AS _row_kind FROM v4  AS t WHERE (id in (1, 2))
-->   v3 = db.t [ts]
-->   v4 = db.t [id, name, tags, info] read.mode=file

--# an update by an alias, with a comment and a value that has commas
update db.t as x set x.name = concat(x.name, ',', case when id > 1 then 'a' else 'b' end) -- why
, tags = array('a', 'b')
--> insert into db.t:
-->   SELECT x.id AS id, CAST((CAST((concat(x.name, ',', case when id > 1 then 'a' else 'b' end)) AS string)) AS string) AS name, x.ts AS ts, (CAST((array('a', 'b')) AS array<string>)) AS tags, x.info AS info, '+U' AS _row_kind FROM v2  AS x
-->   v2 = db.t [id, name, ts, info] read.mode=file

--# names with their database
update db.t set t.name = db.t.name || 'x' where db.t.id = 1
--> insert into db.t:
-->   SELECT t.id AS id, CAST((CAST((t.name || 'x') AS string)) AS string) AS name, t.ts AS ts, t.tags AS tags, t.info AS info, '+U' AS _row_kind FROM v2  AS t WHERE (t.id = 1)
-->   v2 = db.t [id, name, ts, tags, info] read.mode=file

--# an update of a table without a key
update db.u set amount = 0 where amount < 0
--> files of db.u:
-->   SELECT DISTINCT input_file_name() AS _lakelog_file FROM v2  AS u WHERE (amount < 0)
-->   v2 = db.u [amount] read.mode=file
--> in place of ['f1', 'f2'] of db.u:
-->   SELECT u.uid, u.id, if(_lakelog_met, CAST((CAST((0) AS decimal(10,2))) AS decimal(10,2)), u.amount) AS amount, u.order, u.name, if(_lakelog_met, '+U', NULL) AS _row_kind FROM (SELECT *, coalesce((amount < 0), false) AS _lakelog_met FROM v3  AS u) AS u
-->   v3 = db.u [uid, id, amount, order, name] read.mode=file scan.data-files=f1,f2

--# an update of all rows
update db.u set amount = 0
--> all files of db.u
--> in place of ['f1', 'f2'] of db.u:
-->   SELECT u.uid, u.id, if(_lakelog_met, CAST((CAST((0) AS decimal(10,2))) AS decimal(10,2)), u.amount) AS amount, u.order, u.name, if(_lakelog_met, '+U', NULL) AS _row_kind FROM (SELECT *, true AS _lakelog_met FROM v2  AS u) AS u
-->   v2 = db.u [uid, id, amount, order, name] read.mode=file scan.data-files=f1,f2

--# deletes
delete from db.t where id = 1 or name is null;
delete from db.u u1 where u1.id not in (select id from db.t);
delete from db.t /*+ OPTIONS('emit.mode'='file') */;
delete from other.p where day = date '2024-01-31'
--> insert into db.t:
-->   SELECT t.id, t.name, t.ts, t.tags, t.info, '-D' AS _row_kind FROM v1  AS t WHERE (id = 1 or name is null)
-->   v1 = db.t [id, name, ts, tags, info] read.mode=file
--> files of db.u:
-->   SELECT DISTINCT input_file_name() AS _lakelog_file FROM v2  AS u1 WHERE (u1.id not in (select id from v3 AS `t`))
-->   v2 = db.u [id] read.mode=file
-->   v3 = db.t [id]
--> in place of ['f1', 'f2'] of db.u:
-->   SELECT u1.uid, u1.id, u1.amount, u1.order, u1.name FROM v4  AS u1 WHERE NOT coalesce((u1.id not in (select id from v5 AS `t`)), false)
-->   v4 = db.u [uid, id, amount, order, name] read.mode=file scan.data-files=f1,f2
-->   v5 = db.t [id]
--> delete from db.t None emit.mode=file
--> delete from other.p day = 2024-01-31

--# a merge
merge into db.t using (select uid as id, name from db.u) as s on t.id = s.id
when matched and s.name is null then delete
when matched then update set name = s.name
when not matched and s.id > 0 then insert (id, name) values (id, coalesce(name, '-'))
when not matched by source and id < 0 then update set name = 'left', ts = null
--> insert into db.t:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, if(_lakelog_row._row_kind IN ('-D', '-U'), _o2, _n2) AS ts, if(_lakelog_row._row_kind IN ('-D', '-U'), _o3, _n3) AS tags, if(_lakelog_row._row_kind IN ('-D', '-U'), _o4, _n4) AS info, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT _o0, _n0, _o1, _n1, _o2, _n2, _o3, _n3, _o4, _n4, _lakelog_action, row_number() OVER (PARTITION BY if(_lakelog_action IN (1), _o0, _n0) ORDER BY if(_lakelog_action IN (1), 0, 1)) AS _lakelog_first FROM (SELECT _o0, _n0, _o1, _n1, _o2, _n2, _o3, _n3, _o4, _n4, if(count(*) OVER (PARTITION BY _o0, _lakelog_number) > 1 AND _lakelog_number = 0, raise_error('MERGE INTO db.t: several source rows match one row, and each of them would change it'), _lakelog_action) AS _lakelog_action FROM (SELECT * FROM (SELECT CASE WHEN t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN CASE WHEN s.name is null THEN 1 WHEN true THEN 2 ELSE 0 END WHEN s._lakelog_source IS NOT NULL THEN CASE WHEN s.id > 0 THEN 3 ELSE 0 END ELSE CASE WHEN t.id < 0 THEN 4 ELSE 0 END END AS _lakelog_action, t._lakelog_target IS NOT NULL AS _is, if(t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, t._lakelog_id AS _lakelog_id, t.id AS _o0, CASE _lakelog_action WHEN 2 THEN t.id WHEN 3 THEN (CAST((s.id) AS int)) WHEN 4 THEN t.id END AS _n0, t.name AS _o1, CASE _lakelog_action WHEN 2 THEN CAST((CAST((s.name) AS string)) AS string) WHEN 3 THEN CAST((CAST((coalesce(s.name, '-')) AS string)) AS string) WHEN 4 THEN CAST(('left') AS string) END AS _n1, t.ts AS _o2, CASE _lakelog_action WHEN 2 THEN t.ts WHEN 3 THEN NULL WHEN 4 THEN (null) END AS _n2, t.tags AS _o3, CASE _lakelog_action WHEN 2 THEN t.tags WHEN 3 THEN NULL WHEN 4 THEN t.tags END AS _n3, t.info AS _o4, CASE _lakelog_action WHEN 2 THEN t.info WHEN 3 THEN NULL WHEN 4 THEN t.info END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v3 AS `t` ) AS t FULL OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM (select uid as id, name from v4 AS `u`) as s) AS s ON t.id = s.id) WHERE _lakelog_action > 0))) WHERE _lakelog_first = 1 OR _lakelog_action NOT IN (1)) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (2, 4) THEN array('+U') WHEN _lakelog_action IN (1) THEN array('-D') WHEN _lakelog_action IN (3) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v3 = db.t [id, name, ts, tags, info] read.mode=file
-->   v4 = db.u [uid, order, name]

--# a merge of whole rows, into a table without a key
merge into db.arctic a using sourceTable on a.id = sourceTable.id when matched then update set * when not matched then insert *
--> all files of db.arctic
--> in place of ['f1', 'f2'] of db.arctic:
-->   SELECT if(_lakelog_action = 0, _o0, _n0) AS id, if(_lakelog_action = 0, _o1, _n1) AS name, CASE WHEN _lakelog_action IN (1) THEN '+U' WHEN _lakelog_action IN (2) THEN '+I' END AS _row_kind FROM (SELECT _o0, _n0, _o1, _n1, _is, if(sum(if(_lakelog_action > 0, 1, 0)) OVER (PARTITION BY _lakelog_id, _lakelog_number) > 1 AND _lakelog_number = 0, raise_error('MERGE INTO db.arctic: several source rows match one row, and each of them would change it'), _lakelog_action) AS _lakelog_action, row_number() OVER (PARTITION BY _lakelog_id, _lakelog_number ORDER BY _lakelog_action DESC) AS _lakelog_first FROM (SELECT CASE WHEN a._lakelog_target IS NOT NULL AND sourceTable._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END WHEN sourceTable._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 2 ELSE 0 END ELSE 0 END AS _lakelog_action, a._lakelog_target IS NOT NULL AS _is, if(a._lakelog_target IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, a._lakelog_id AS _lakelog_id, a.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((sourceTable.id) AS int)) WHEN 2 THEN (CAST((sourceTable.id) AS int)) END AS _n0, a.name AS _o1, CASE _lakelog_action WHEN 1 THEN CAST((CAST((sourceTable.name) AS string)) AS string) WHEN 2 THEN CAST((CAST((sourceTable.name) AS string)) AS string) END AS _n1 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v2 AS `arctic` ) AS a FULL OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM sourceTable) AS sourceTable ON a.id = sourceTable.id)) WHERE _lakelog_first = 1 AND (_is OR _lakelog_action > 0)
-->   v2 = db.arctic [id, name] read.mode=file scan.data-files=f1,f2

--# a merge that only adds rows
merge into db.arctic using other.t s on arctic.id = s.id when not matched by target then insert (id) values (s.id)
--> insert into db.arctic:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN arctic._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN 0 WHEN s._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, arctic._lakelog_target IS NOT NULL AS _is, if(arctic._lakelog_target IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, arctic._lakelog_id AS _lakelog_id, arctic.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((s.id) AS int)) END AS _n0, arctic.name AS _o1, CASE _lakelog_action WHEN 1 THEN NULL END AS _n1 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v3 AS `arctic` ) AS arctic RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM v4 s) AS s ON arctic.id = s.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v3 = db.arctic [id, name] read.mode=file
-->   v4 = other.t [id]

--# a table that only Spark knows
update spark_t set a = 1;
merge into spark_t using db.t on spark_t.id = t.id when matched then delete
--> spark:
-->   update spark_t set a = 1
--> spark:
-->   merge into spark_t using db.t on spark_t.id = t.id when matched then delete

--# an unknown column
update db.t set nam = 'x'
--> InvalidSchema:
-->   table 'db.t' has no column 'nam', did you mean 'name'? Its columns: id, name, ts, tags, info

--# a column that is set twice
update db.t set name = 'x', t.NAME = 'y'
--> UnsupportedStatement:
-->   line 1, column 29: column 'NAME' is set twice
-->   update db.t set name = 'x', t.NAME = 'y'
-->                               ^

--# a part of a column
update db.t set info.a = 1
--> insert into db.t:
-->   SELECT t.id AS id, t.name AS name, t.ts AS ts, t.tags AS tags, (CAST((named_struct('a', CAST((1) AS int), 'id', t.info.id)) AS struct<a:int,id:string>)) AS info, '+U' AS _row_kind FROM v2  AS t
-->   v2 = db.t [id, name, ts, tags, info] read.mode=file

--# an update without a value
update db.t set name = where id = 1
--> UnsupportedStatement:
-->   line 1, column 24: expected a value for column 'name', found 'where'
-->   update db.t set name = where id = 1
-->                          ^

--# what a merge cannot do
merge into db.t using db.u on t.id = u.id when not matched then delete
--> UnsupportedStatement:
-->   line 1, column 65: expected INSERT, found 'delete'
-->   merge into db.t using db.u on t.id = u.id when not matched then delete
-->                                                                   ^

--# a source without a name
merge into db.t using (select 1 as id) on t.id = id when matched then delete
--> UnsupportedStatement:
-->   line 1, column 23: the source of a MERGE needs an alias: USING (SELECT …) AS s
-->   merge into db.t using (select 1 as id) on t.id = id when matched then delete
-->                         ^

--# a merge without a clause
merge into db.t using db.u on t.id = u.id
--> UnsupportedStatement:
-->   line 1, column 42: expected WHEN MATCHED or WHEN NOT MATCHED, found the end of the statement
-->   merge into db.t using db.u on t.id = u.id
-->                                            ^

--# columns and values
merge into db.t using db.u on t.id = u.id when not matched then insert (id, name) values (1)
--> UnsupportedStatement:
-->   line 1, column 72: INSERT names 2 columns and has 1 values
-->   merge into db.t using db.u on t.id = u.id when not matched then insert (id, name) values (1)
-->                                                                          ^

--# what the table's merge engine does not do
delete from db.t /*+ OPTIONS('emit.mode'='log') */ where id = 1
--> UnsupportedFeature:
-->   ['DELETE'] with a log

--# parts of structs
update db.t as x set x.info.a = x.info.a + 1, name = default;
update db.t set info.a = 1, info.id = default, db.t.name = 'x' where id = 1
--> insert into db.t:
-->   SELECT x.id AS id, CAST((NULL) AS string) AS name, x.ts AS ts, x.tags AS tags, (CAST((named_struct('a', CAST((x.info.a + 1) AS int), 'id', x.info.id)) AS struct<a:int,id:string>)) AS info, '+U' AS _row_kind FROM v2  AS x
-->   v2 = db.t [id, ts, tags, info] read.mode=file
--> insert into db.t:
-->   SELECT t.id AS id, CAST(('x') AS string) AS name, t.ts AS ts, t.tags AS tags, (CAST((named_struct('a', CAST((1) AS int), 'id', CAST((NULL) AS string))) AS struct<a:int,id:string>)) AS info, '+U' AS _row_kind FROM v4  AS t WHERE (id = 1)
-->   v4 = db.t [id, ts, tags] read.mode=file

--# a part that a struct has not
update db.t set info.c = 1
--> InvalidSchema:
-->   column 'info' of table 'db.t' has no part 'c'. Its parts: a, id

--# a part of what is no struct
update db.t set name.c = 1
--> InvalidSchema:
-->   column 'name' of table 'db.t' is not a struct: set the whole column

--# a whole column and a part of it
update db.t set info.a = 1, info = null
--> UnsupportedStatement:
-->   line 1, column 29: column 'info' is set twice
-->   update db.t set info.a = 1, info = null
-->                               ^

--# a merge that brings columns, and gives defaults
merge with schema evolution into db.t using (select 1 as id, 'a' as name) s on t.id = s.id
when not matched then insert *;
merge into db.t using db.arctic s on t.id = s.id when not matched then insert (id, name) values (id, default)
--> columns of:
-->   SELECT * FROM (select 1 as id, 'a' as name) s
--> insert into db.t:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, if(_lakelog_row._row_kind IN ('-D', '-U'), _o2, _n2) AS ts, if(_lakelog_row._row_kind IN ('-D', '-U'), _o3, _n3) AS tags, if(_lakelog_row._row_kind IN ('-D', '-U'), _o4, _n4) AS info, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN 0 WHEN s._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, t._lakelog_target IS NOT NULL AS _is, if(t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, t._lakelog_id AS _lakelog_id, t.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((s.id) AS int)) END AS _n0, t.name AS _o1, CASE _lakelog_action WHEN 1 THEN CAST((CAST((s.name) AS string)) AS string) END AS _n1, t.ts AS _o2, CASE _lakelog_action WHEN 1 THEN NULL END AS _n2, t.tags AS _o3, CASE _lakelog_action WHEN 1 THEN NULL END AS _n3, t.info AS _o4, CASE _lakelog_action WHEN 1 THEN NULL END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v2 AS `t` ) AS t RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM (select 1 as id, 'a' as name) s) AS s ON t.id = s.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v2 = db.t [id, name, ts, tags, info] read.mode=file
--> insert into db.t:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, if(_lakelog_row._row_kind IN ('-D', '-U'), _o2, _n2) AS ts, if(_lakelog_row._row_kind IN ('-D', '-U'), _o3, _n3) AS tags, if(_lakelog_row._row_kind IN ('-D', '-U'), _o4, _n4) AS info, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN 0 WHEN s._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, t._lakelog_target IS NOT NULL AS _is, if(t._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, t._lakelog_id AS _lakelog_id, t.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((s.id) AS int)) END AS _n0, t.name AS _o1, CASE _lakelog_action WHEN 1 THEN CAST((NULL) AS string) END AS _n1, t.ts AS _o2, CASE _lakelog_action WHEN 1 THEN NULL END AS _n2, t.tags AS _o3, CASE _lakelog_action WHEN 1 THEN NULL END AS _n3, t.info AS _o4, CASE _lakelog_action WHEN 1 THEN NULL END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v5 AS `t` ) AS t RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM v6 s) AS s ON t.id = s.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v5 = db.t [id, name, ts, tags, info] read.mode=file
-->   v6 = db.arctic [id]

--# an older version and a sample as sources of a merge
merge into db.t using db.u version as of 1 on t.id = u.id when not matched then insert (id) values (u.id);
merge into db.t using db.u tablesample (10 rows) repeatable (1) on t.id = u.id when not matched then insert (id) values (u.id)
--> insert into db.t:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, if(_lakelog_row._row_kind IN ('-D', '-U'), _o2, _n2) AS ts, if(_lakelog_row._row_kind IN ('-D', '-U'), _o3, _n3) AS tags, if(_lakelog_row._row_kind IN ('-D', '-U'), _o4, _n4) AS info, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN t._lakelog_target IS NOT NULL AND u._lakelog_source IS NOT NULL THEN 0 WHEN u._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, t._lakelog_target IS NOT NULL AS _is, if(t._lakelog_target IS NOT NULL AND u._lakelog_source IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, t._lakelog_id AS _lakelog_id, t.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((u.id) AS int)) END AS _n0, t.name AS _o1, CASE _lakelog_action WHEN 1 THEN NULL END AS _n1, t.ts AS _o2, CASE _lakelog_action WHEN 1 THEN NULL END AS _n2, t.tags AS _o3, CASE _lakelog_action WHEN 1 THEN NULL END AS _n3, t.info AS _o4, CASE _lakelog_action WHEN 1 THEN NULL END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v3 AS `t` ) AS t RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM v4 AS `u` ) AS u ON t.id = u.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v3 = db.t [id, name, ts, tags, info] read.mode=file
-->   v4 = db.u [id] scan.version=1
--> insert into db.t:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, if(_lakelog_row._row_kind IN ('-D', '-U'), _o2, _n2) AS ts, if(_lakelog_row._row_kind IN ('-D', '-U'), _o3, _n3) AS tags, if(_lakelog_row._row_kind IN ('-D', '-U'), _o4, _n4) AS info, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN t._lakelog_target IS NOT NULL AND u._lakelog_source IS NOT NULL THEN 0 WHEN u._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, t._lakelog_target IS NOT NULL AS _is, if(t._lakelog_target IS NOT NULL AND u._lakelog_source IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, t._lakelog_id AS _lakelog_id, t.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((u.id) AS int)) END AS _n0, t.name AS _o1, CASE _lakelog_action WHEN 1 THEN NULL END AS _n1, t.ts AS _o2, CASE _lakelog_action WHEN 1 THEN NULL END AS _n2, t.tags AS _o3, CASE _lakelog_action WHEN 1 THEN NULL END AS _n3, t.info AS _o4, CASE _lakelog_action WHEN 1 THEN NULL END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v7 AS `t` ) AS t RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM v8 tablesample (10 rows) repeatable (1) AS `u`) AS u ON t.id = u.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v7 = db.t [id, name, ts, tags, info] read.mode=file
-->   v8 = db.u [id]

--# a temporary view that hides the table
update shadow set id = 1
--> InvalidRequest:
-->   'shadow' is a temporary view, which hides table 'default.shadow': write the table's name with its database, or drop the view

--# a source that only changes rows of a table without a key is read once for both queries
merge into db.u using (select id, rand() r from db.t where rand() < 0.5) s on u.id = s.id when matched then update set amount = s.r
--> materialized:
-->   SELECT * FROM (select id, rand() r from v3 AS `t` where rand() < 0.5) s
-->   v3 = db.t [id]
--> files of db.u:
-->   SELECT DISTINCT u._lakelog_file FROM (SELECT *, input_file_name() AS _lakelog_file FROM v4 AS `u` ) AS u JOIN (SELECT *, 1 AS _lakelog_source FROM kept_rows) AS s ON u.id = s.id
-->   v4 = db.u [id] read.mode=file
--> in place of ['f1', 'f2'] of db.u:
-->   SELECT if(_lakelog_action = 0, _o0, _n0) AS uid, if(_lakelog_action = 0, _o1, _n1) AS id, if(_lakelog_action = 0, _o2, _n2) AS amount, if(_lakelog_action = 0, _o3, _n3) AS order, if(_lakelog_action = 0, _o4, _n4) AS name, CASE WHEN _lakelog_action IN (1) THEN '+U' END AS _row_kind FROM (SELECT _o0, _n0, _o1, _n1, _o2, _n2, _o3, _n3, _o4, _n4, _is, if(sum(if(_lakelog_action > 0, 1, 0)) OVER (PARTITION BY _lakelog_id, _lakelog_number) > 1 AND _lakelog_number = 0, raise_error('MERGE INTO db.u: several source rows match one row, and each of them would change it'), _lakelog_action) AS _lakelog_action, row_number() OVER (PARTITION BY _lakelog_id, _lakelog_number ORDER BY _lakelog_action DESC) AS _lakelog_first FROM (SELECT CASE WHEN u._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END WHEN s._lakelog_source IS NOT NULL THEN 0 ELSE 0 END AS _lakelog_action, u._lakelog_target IS NOT NULL AS _is, if(u._lakelog_target IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, u._lakelog_id AS _lakelog_id, u.uid AS _o0, CASE _lakelog_action WHEN 1 THEN u.uid END AS _n0, u.id AS _o1, CASE _lakelog_action WHEN 1 THEN u.id END AS _n1, u.amount AS _o2, CASE _lakelog_action WHEN 1 THEN CAST((CAST((s.r) AS decimal(10,2))) AS decimal(10,2)) END AS _n2, u.order AS _o3, CASE _lakelog_action WHEN 1 THEN u.order END AS _n3, u.name AS _o4, CASE _lakelog_action WHEN 1 THEN u.name END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v5 AS `u` ) AS u LEFT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM kept_rows) AS s ON u.id = s.id)) WHERE _lakelog_first = 1 AND (_is OR _lakelog_action > 0)
-->   v5 = db.u [uid, id, amount, order, name] read.mode=file scan.data-files=f1,f2

--# columns of a source that is a table's name, with their database
merge into db.u using db.arctic on db.u.id = db.arctic.id when matched and db.arctic.name > 'a' then update set name = arctic.name
--> materialized:
-->   SELECT * FROM v3 AS `arctic`
-->   v3 = db.arctic [*]
--> files of db.u:
-->   SELECT DISTINCT u._lakelog_file FROM (SELECT *, input_file_name() AS _lakelog_file FROM v4 AS `u` ) AS u JOIN (SELECT *, 1 AS _lakelog_source FROM kept_rows) AS arctic ON u.id = arctic.id
-->   v4 = db.u [id] read.mode=file
--> in place of ['f1', 'f2'] of db.u:
-->   SELECT if(_lakelog_action = 0, _o0, _n0) AS uid, if(_lakelog_action = 0, _o1, _n1) AS id, if(_lakelog_action = 0, _o2, _n2) AS amount, if(_lakelog_action = 0, _o3, _n3) AS order, if(_lakelog_action = 0, _o4, _n4) AS name, CASE WHEN _lakelog_action IN (1) THEN '+U' END AS _row_kind FROM (SELECT _o0, _n0, _o1, _n1, _o2, _n2, _o3, _n3, _o4, _n4, _is, if(sum(if(_lakelog_action > 0, 1, 0)) OVER (PARTITION BY _lakelog_id, _lakelog_number) > 1 AND _lakelog_number = 0, raise_error('MERGE INTO db.u: several source rows match one row, and each of them would change it'), _lakelog_action) AS _lakelog_action, row_number() OVER (PARTITION BY _lakelog_id, _lakelog_number ORDER BY _lakelog_action DESC) AS _lakelog_first FROM (SELECT CASE WHEN u._lakelog_target IS NOT NULL AND arctic._lakelog_source IS NOT NULL THEN CASE WHEN arctic.name > 'a' THEN 1 ELSE 0 END WHEN arctic._lakelog_source IS NOT NULL THEN 0 ELSE 0 END AS _lakelog_action, u._lakelog_target IS NOT NULL AS _is, if(u._lakelog_target IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, u._lakelog_id AS _lakelog_id, u.uid AS _o0, CASE _lakelog_action WHEN 1 THEN u.uid END AS _n0, u.id AS _o1, CASE _lakelog_action WHEN 1 THEN u.id END AS _n1, u.amount AS _o2, CASE _lakelog_action WHEN 1 THEN u.amount END AS _n2, u.order AS _o3, CASE _lakelog_action WHEN 1 THEN u.order END AS _n3, u.name AS _o4, CASE _lakelog_action WHEN 1 THEN CAST((CAST((arctic.name) AS string)) AS string) END AS _n4 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v5 AS `u` ) AS u LEFT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM kept_rows) AS arctic ON u.id = arctic.id)) WHERE _lakelog_first = 1 AND (_is OR _lakelog_action > 0)
-->   v5 = db.u [uid, id, amount, order, name] read.mode=file scan.data-files=f1,f2

--# a clause for rows without a source row names a column of the source
merge into db.t as t using db.u as s on t.id = s.id when not matched by source then update set name = s.name;
--> UnsupportedStatement:
-->   line 1, column 1: WHEN NOT MATCHED BY SOURCE is about rows without a row of 's', whose columns it cannot use
-->   merge into db.t as t using db.u as s on t.id = s.id when not matched by source then update set name = s.name;
-->   ^

--# a clause for rows without a target row names a column of the target
merge into db.t as t using db.u as s on t.id = s.id when not matched and t.name = 'x' then insert (id) values (s.id);
--> UnsupportedStatement:
-->   line 1, column 1: WHEN NOT MATCHED is about rows without a row of 't', whose columns it cannot use
-->   merge into db.t as t using db.u as s on t.id = s.id when not matched and t.name = 'x' then insert (id) values (s.id);
-->   ^

--# a condition that is null
delete from db.t where null;
--> insert into db.t:
-->   SELECT t.id, t.name, t.ts, t.tags, t.info, '-D' AS _row_kind FROM v1  AS t WHERE (CAST(NULL AS BOOLEAN))
-->   v1 = db.t [id, name, ts, tags, info] read.mode=file
