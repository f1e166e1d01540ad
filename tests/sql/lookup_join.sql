--# a row of a stream finds the newest row of a table
select o.uid, d.name from db.u as o join db.t for system_time as of proctime() as d on o.id = d.id where o.amount > 1
--> query:
-->   select o.uid, d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d where o.amount > 1
-->   v2 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 as o
-->   v1 = db.u [uid, id, amount]

--# a left join with further conditions
select o.uid, d.name from db.u o left outer join db.t FOR SYSTEM_TIME AS OF current_timestamp() d on d.id = o.id and d.name = o.name and uid > 3 and ts is not null where 1 = 1
--> query:
-->   select o.uid, d.name from (SELECT _lakelog_left_0, filter(_lakelog_found, d -> (d.name = o.name) AND (o.uid > 3) AND (d.ts is not null)) AS _lakelog_found FROM (SELECT *, _lakelog_left_0 AS o FROM v2)) AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline_outer(_lakelog_side._lakelog_found) AS d where 1 = 1
-->   v2 = db.t [id, name, ts] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v1 = db.u [uid, id, name]

--# an inner join with further conditions
select uid, d.name from db.u o inner join db.t for system_time as of now() d on (d.id = o.id + 1 and (d.name > o.name or uid between 3 and 4)) order by 1
--> query:
-->   select uid, d.name from (SELECT _lakelog_left_0, filter(_lakelog_found, d -> ((d.name > o.name or o.uid between 3 and 4))) AS _lakelog_found FROM (SELECT *, _lakelog_left_0 AS o FROM v2)) AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d order by 1
-->   v2 = db.t [id, name] by id = o.id + 1
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id + 1) AS _lakelog_key_0 FROM v1 o
-->   v1 = db.u [uid, id, order, name]

--# without an alias, and with a hint
select u.uid, t.name from db.u join db.t for system_time as of proctime() /*+ OPTIONS('lookup.async'='true') */ on db.t.id = db.u.id
--> query:
-->   select u.uid, t.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS u JOIN LATERAL inline(_lakelog_side._lakelog_found) AS t
-->   v2 = db.t [id, name] by id = u.id lookup.async=true
-->     in SELECT struct(u.*) AS _lakelog_left_0, (u.id) AS _lakelog_key_0 FROM v1 AS `u`
-->   v1 = db.u [uid, id]

--# a hint behind the alias
select d.name from db.u o join db.t for system_time as of proctime() as d /*+ OPTIONS('lookup.async'='true') */ on o.id = d.id
--> query:
-->   select d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v2 = db.t [id, name] by id = o.id lookup.async=true
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v1 = db.u [id]

--# every column
select * from db.u o join db.t for system_time as of proctime() d on o.id = d.id
--> query:
-->   select o.*, d.* from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v2 = db.t [*] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v1 = db.u [*]

--# one after the other, the second by what the first has found
select o.uid, a.name, b.tags from db.u o join db.t for system_time as of proctime() a on o.id = a.id left join db.t for system_time as of proctime() b on a.info.a = b.id join spark_t s on s.x = b.name
--> query:
-->   select o.uid, a.name, b.tags from v3 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(array(_lakelog_side._lakelog_left_1)) AS a JOIN LATERAL inline_outer(_lakelog_side._lakelog_found) AS b join spark_t s on s.x = b.name
-->   v2 = db.t [id, name, info] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v3 = db.t [id, name, tags] by id = a.info.a
-->     in SELECT struct(o.*) AS _lakelog_left_0, struct(a.*) AS _lakelog_left_1, (a.info.a) AS _lakelog_key_0 FROM v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS a
-->   v1 = db.u [uid, id]

--# a query with the time as a column
select o.uid, d.name from (select *, proctime() as pt from db.u) as o join db.t for system_time as of o.pt as d on o.id = d.id
--> query:
-->   select o.uid, d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v2 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM (select *, current_timestamp() as pt from v1 AS `u`) as o
-->   v1 = db.u [uid, id]

--# behind WITH, and in an inner query
with o as (select uid, id, current_timestamp() pt from db.u), p as (select o.*, d.name from o join db.t for system_time as of o.pt d on o.id = d.id) select count(*) from (select p.name from p join db.t for system_time as of pt e on p.uid = e.id) where name > ''
--> query:
-->   with o as (select uid, id, current_timestamp() pt from v1 AS `u`), p as (select o.*, d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d) select count(*) from (select p.name from v3 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS p JOIN LATERAL inline(_lakelog_side._lakelog_found) AS e) where name > ''
-->   v2 = db.t [id, name] by id = o.id
-->     in WITH o as (select uid, id, current_timestamp() pt from v1 AS `u`) SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM o
-->   v3 = db.t [id] by id = p.uid
-->     in WITH o as (select uid, id, current_timestamp() pt from v1 AS `u`), p as (select o.*, d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d) SELECT struct(p.*) AS _lakelog_left_0, (p.uid) AS _lakelog_key_0 FROM p
-->   v1 = db.u [uid, id]

--# a column of Spark's view is the time of reading by its name
select d.name from sourceTable o join db.t for system_time as of o.proc_time d on o.id = d.id
--> query:
-->   select d.name from v1 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v1 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM sourceTable o

--# a column AS PROCTIME() of the table's definition is the time of reading
select d.name from other.t o join db.t for system_time as of o.seen d on o.id = d.id
--> query:
-->   select d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v2 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v1 = other.t [id]

--# an event time is refused
select d.name from sourceTable o join db.t for system_time as of o.ts d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 44: 'o.ts' is a column of the row, such as an event time: a lookup join reads the table as of now, not as of another time. Write FOR SYSTEM_TIME AS OF PROCTIME(), or a column that is PROCTIME() AS … in a query before the join
-->   select d.name from sourceTable o join db.t for system_time as of o.ts d on o.id = d.id
-->                                              ^

--# so is a column of the table, followed through a query
select d.name from (select id, ts as at from db.t) o join db.t for system_time as of o.at d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 64: 'o.at' is a column of the row, such as an event time: a lookup join reads the table as of now, not as of another time. Write FOR SYSTEM_TIME AS OF PROCTIME(), or a column that is PROCTIME() AS … in a query before the join
-->   select d.name from (select id, ts as at from db.t) o join db.t for system_time as of o.at d on o.id = d.id
-->                                                                  ^

--# a column that is not there
select d.name from db.u o join db.t for system_time as of o.at d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 37: no relation before this join has a column 'o.at': write FOR SYSTEM_TIME AS OF PROCTIME()
-->   select d.name from db.u o join db.t for system_time as of o.at d on o.id = d.id
-->                                       ^

--# a table without a primary key
select 1 from db.t o join db.u for system_time as of proctime() d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 27: table 'db.u' has no primary key: a lookup join finds rows by columns of the primary key
-->   select 1 from db.t o join db.u for system_time as of proctime() d on o.id = d.id
-->                             ^

--# no key in the condition
select 1 from db.u o join db.t for system_time as of proctime() d on o.name = d.name
--> UnsupportedStatement:
-->   line 1, column 70: a lookup join finds rows of 'db.t' by columns of its primary key (id): write d.id = … here, and further conditions after AND
-->   select 1 from db.u o join db.t for system_time as of proctime() d on o.name = d.name
-->                                                                        ^

--# an or is no key
select 1 from db.u o join db.t for system_time as of proctime() d on o.id = d.id or o.name = d.name
--> UnsupportedStatement:
-->   line 1, column 70: a lookup join finds rows of 'db.t' by columns of its primary key (id): write d.id = … here, and further conditions after AND
-->   select 1 from db.u o join db.t for system_time as of proctime() d on o.id = d.id or o.name = d.name
-->                                                                        ^

--# no condition
select 1 from db.u o join db.t for system_time as of proctime() d
--> UnsupportedStatement:
-->   line 1, column 27: a lookup join needs ON with an equality on columns of the primary key (id)
-->   select 1 from db.u o join db.t for system_time as of proctime() d
-->                             ^

--# a table of Spark
select 1 from db.u o join spark_t for system_time as of proctime() d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 27: 'spark_t' is a Spark table: only tables of this lake with a primary key can be looked up
-->   select 1 from db.u o join spark_t for system_time as of proctime() d on o.id = d.id
-->                             ^

--# a full join
select 1 from db.u o full join db.t for system_time as of proctime() d on o.id = d.id
--> UnsupportedStatement:
-->   line 1, column 32: a lookup join must be an INNER JOIN or a LEFT JOIN
-->   select 1 from db.u o full join db.t for system_time as of proctime() d on o.id = d.id
-->                                  ^

--# no join
select 1 from db.t for system_time as of proctime() d
--> UnsupportedStatement:
-->   line 1, column 15: table 'db.t' can only be looked up in a join: write FROM stream AS s JOIN db.t FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.k = d.k
-->   select 1 from db.t for system_time as of proctime() d
-->                 ^

--# a column that may be of two relations
select 1 from db.u o join spark_t s on s.id = o.id left join db.t for system_time as of proctime() d on o.id = d.id and uid > 1
--> UnsupportedStatement:
-->   line 1, column 121: qualify column 'uid' with its relation in the condition of a lookup join
-->   select 1 from db.u o join spark_t s on s.id = o.id left join db.t for system_time as of proctime() d on o.id = d.id and uid > 1
-->                                                                                                                           ^

--# a time in the past stays time travel
select d.name from db.u o join db.t for system_time as of '2024-01-31 12:00:00' d on o.id = d.id
--> query:
-->   select d.name from v1 o join v2  d on o.id = d.id
-->   v1 = db.u [id]
-->   v2 = db.t [id, name] scan.timestamp=2024-01-31 12:00:00

--# an insert from a lookup join
insert into other.t select o.uid, d.name from db.u o join db.t for system_time as of proctime() d on o.id = d.id
--> insert into other.t:
-->   select o.uid, d.name from v2 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v2 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM v1 o
-->   v1 = db.u [uid, id]

--# a lasting view of one
create temporary view joined as select o.uid, d.name from sourceTable o join db.t for system_time as of proctime() d on o.id = d.id
--> query with persistent views:
-->   create temporary view joined as select o.uid, d.name from v1 AS _lakelog_side JOIN LATERAL inline(array(_lakelog_side._lakelog_left_0)) AS o JOIN LATERAL inline(_lakelog_side._lakelog_found) AS d
-->   v1 = db.t [id, name] by id = o.id
-->     in SELECT struct(o.*) AS _lakelog_left_0, (o.id) AS _lakelog_key_0 FROM sourceTable o
