-- Metadata columns: where a row is stored. Stars do not show them, and input_file_name() is one of them.

--# a query that names them reads them, and stars stay as they were
select *, __paimon_row_index from db.t;
select t.*, u.id, t.__paimon_bucket from db.t join db.u on t.id = u.uid
--> query:
-->   select * EXCEPT (t.__paimon_row_index), __paimon_row_index from v1 AS `t`
-->   v1 = db.t [*] scan.metadata-columns=__paimon_row_index
--> query:
-->   select t.* EXCEPT (t.__paimon_bucket), u.id, t.__paimon_bucket from v2 AS `t` join v3 AS `u` on t.id = u.uid
-->   v2 = db.t [*] scan.metadata-columns=__paimon_bucket
-->   v3 = db.u [uid, id]

--# names with a qualifier, with parts, and in a condition
select db.t.id, `t`.__paimon_file_path, _metadata.file_name from db.t where t._metadata.file_size > 0
--> query:
-->   select t.id, `t`.__paimon_file_path, _metadata.file_name from v1 AS `t` where t._metadata.file_size > 0
-->   v1 = db.t [id, __paimon_file_path, _metadata] scan.metadata-columns=__paimon_file_path,_metadata

--# only the table that can be meant has them
select id from db.t where exists (select 1 from db.u where u.id = t.id and __paimon_bucket = 0);
select f.id from (select id, __paimon_bucket as b from db.t) f join db.u on u.id = f.b
--> query:
-->   select id from v1 AS `t` where exists (select 1 from v2 AS `u` where u.id = t.id and __paimon_bucket = 0)
-->   v1 = db.t [id]
-->   v2 = db.u [id, __paimon_bucket] scan.metadata-columns=__paimon_bucket
--> query:
-->   select f.id from (select id, __paimon_bucket as b from v3 AS `t`) f join v4 AS `u` on u.id = f.b
-->   v3 = db.t [id, __paimon_bucket] scan.metadata-columns=__paimon_bucket
-->   v4 = db.u [id]

--# the file of a row
select input_file_name(), INPUT_FILE_NAME ( ) as f, upper(input_file_name()) from db.t as x where input_file_name() <> ''
--> query:
-->   select x.__paimon_file_path AS `input_file_name()`, x.__paimon_file_path as f, upper(x.__paimon_file_path) from v1 as x where x.__paimon_file_path <> ''
-->   v1 = db.t [id, __paimon_file_path] scan.metadata-columns=__paimon_file_path

--# Spark's own tables keep Spark's function
select input_file_name() from spark_t where id in (select id from db.t)
--> query:
-->   select input_file_name() from spark_t where id in (select id from v1 AS `t`)
-->   v1 = db.t [id]

--# a file that would be wrong is refused
select input_file_name() from (select * from db.t);
--> UnsupportedStatement:
-->   line 1, column 8: input_file_name() is the file of one table's rows: read __paimon_file_path in the SELECT whose FROM names the table
-->   select input_file_name() from (select * from db.t);
-->          ^

--# so is one of two tables
select input_file_name() from db.t join db.u on t.id = u.id;
--> UnsupportedStatement:
-->   line 1, column 8: input_file_name() is the file of one table's rows: read __paimon_file_path in the SELECT whose FROM names the table
-->   select input_file_name() from db.t join db.u on t.id = u.id;
-->          ^

--# rows of a log are in no file
select __paimon_file_path from db.t /*+ OPTIONS('read.mode' = 'log') */
--> UnsupportedStatement:
-->   line 1, column 32: '__paimon_file_path' is a column of rows in files, and this reads the log: use the hint OPTIONS('read.mode' = 'file')
-->   select __paimon_file_path from db.t /*+ OPTIONS('read.mode' = 'log') */
-->                                  ^

--# a star that already leaves out columns does not say which stay
select * except (name), __paimon_bucket from db.t
--> UnsupportedStatement:
-->   line 1, column 8: name the columns in place of this star, because the query also reads metadata columns
-->   select * except (name), __paimon_bucket from db.t
-->          ^
