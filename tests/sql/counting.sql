-- What metadata answers: count(*) by partition columns; and queries that need few rows.

--# count(*) alone, with a name, and in lower and upper case
select count(*) from other.p;
SELECT COUNT( * ) AS n FROM other.p x;
select count(1), count(2) from other.p
--> query:
-->   select coalesce(sum(_lakelog_rows), 0) AS `count(1)` from v1 AS `p`
-->   v1 = other.p [] counted
--> query:
-->   SELECT coalesce(sum(_lakelog_rows), 0) AS n FROM v2 x
-->   v2 = other.p [] counted
--> query:
-->   select coalesce(sum(_lakelog_rows), 0) AS `count(1)`, coalesce(sum(_lakelog_rows), 0) AS `count(2)` from v3 AS `p`
-->   v3 = other.p [] counted

--# by partition, with conditions on it
select day, count(*) as n from other.p where hour > 3 group by day having count(*) > 2 order by n desc, day limit 5;
select p.day, p.hour, count(*), count(*) * 2 as twice from other.p group by 1, 2
--> query:
-->   select day, coalesce(sum(_lakelog_rows), 0) as n from v1 AS `p` where hour > 3 group by day having coalesce(sum(_lakelog_rows), 0) > 2 order by n desc, day limit 5
-->   v1 = other.p [day, hour] counted
--> query:
-->   select p.day, p.hour, coalesce(sum(_lakelog_rows), 0) AS `count(1)`, coalesce(sum(_lakelog_rows), 0) * 2 as twice from v2 AS `p` group by 1, 2
-->   v2 = other.p [day, hour] counted

--# within a larger query
select * from (select day, count(*) as n from other.p group by day) where n > 1;
with c as (select count(*) as n from other.p) select n from c
--> query:
-->   select * from (select day, coalesce(sum(_lakelog_rows), 0) as n from v1 AS `p` group by day) where n > 1
-->   v1 = other.p [day] counted
--> query:
-->   with c as (select coalesce(sum(_lakelog_rows), 0) as n from v2 AS `p`) select n from c
-->   v2 = other.p [] counted

--# a point in the past
select count(*) from other.p version as of 3
--> query:
-->   select coalesce(sum(_lakelog_rows), 0) AS `count(1)` from v1 AS `p`
-->   v1 = other.p [] scan.version=3 counted

--# what is not only counted
select count(*), max(id) from other.p;
select count(id) from other.p;
select count(distinct day), count(*) from other.p;
select count(*) from other.p where id = 1;
select id, count(*) from other.p group by id;
select count(*) over () from other.p;
select count(*) filter (where day is not null) from other.p;
select count(*) + 1 from other.p;
select count(*) from other.p a join other.p b on a.day = b.day;
select count(*) from other.p where day in (select max(day) from other.p);
select (select count(*) from other.p) + count(*) from other.p;
select count(*) from other.p tablesample (5 rows);
select *, count(*) from other.p group by all;
select count(*), mean(hour) from other.p;
select count(*), try_sum(hour) from other.p;
select count(*) from other.p where rand() < 0.5;
select count(*) from other.p group by floor(rand() * 4);
select day, count(*) from other.p group by rollup(day);
select name from db.t group by name having (select count(*) as id from other.p where id = 3) = 1
--> query:
-->   select count(*), max(id) from v1 AS `p`
-->   v1 = other.p [id]
--> query:
-->   select count(id) from v2 AS `p`
-->   v2 = other.p [id]
--> query:
-->   select count(distinct day), count(*) from v3 AS `p`
-->   v3 = other.p [day]
--> query:
-->   select count(*) from v4 AS `p` where id = 1
-->   v4 = other.p [id]
--> query:
-->   select id, count(*) from v5 AS `p` group by id
-->   v5 = other.p [id]
--> query:
-->   select count(*) over () from v6 AS `p`
-->   v6 = other.p [id]
--> query:
-->   select count(*) filter (where day is not null) from v7 AS `p`
-->   v7 = other.p [day]
--> query:
-->   select count(*) + 1 from v8 AS `p`
-->   v8 = other.p [id]
--> query:
-->   select count(*) from v9 a join v10 b on a.day = b.day
-->   v9 = other.p [day] where day in v10.day
-->   v10 = other.p [day] where day in v9.day
--> query:
-->   select count(*) from v11 AS `p` where day in (select max(day) from v12 AS `p`)
-->   v11 = other.p [day]
-->   v12 = other.p [day]
--> query:
-->   select (select count(*) from v13 AS `p`) + count(*) from v14 AS `p`
-->   v13 = other.p [id]
-->   v14 = other.p [id]
--> query:
-->   select count(*) from v15 tablesample (5 rows) AS `p`
-->   v15 = other.p [id]
--> query:
-->   select *, count(*) from v16 AS `p` group by all
-->   v16 = other.p [*]
--> query:
-->   select count(*), mean(hour) from v17 AS `p`
-->   v17 = other.p [hour]
--> query:
-->   select count(*), try_sum(hour) from v18 AS `p`
-->   v18 = other.p [hour]
--> query:
-->   select count(*) from v19 AS `p` where rand() < 0.5
-->   v19 = other.p [id]
--> query:
-->   select count(*) from v20 AS `p` group by floor(rand() * 4)
-->   v20 = other.p [id]
--> query:
-->   select day, count(*) from v21 AS `p` group by rollup(day)
-->   v21 = other.p [day]
--> query:
-->   select name from v22 AS `t` group by name having (select count(*) as id from v23 AS `p` where id = 3) = 1
-->   v22 = db.t [name]
-->   v23 = other.p [id]

--# what is no table's files
select count(*) from other.p /*+ OPTIONS('read.mode' = 'log') */;
select count(*) from db.t$snapshots;
create temporary view v as select count(*) as n from other.p
--> query:
-->   select coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)` from v1 AS `p`
-->   v1 = other.p [id, _row_kind] read.mode=log
--> query:
-->   select count(*) from v2 AS `t$snapshots`
-->   v2 = db.t$snapshots [snapshot_id]
--> query with persistent views:
-->   create temporary view v as select count(*) as n from v3 AS `p`
-->   v3 = other.p [id]

--# a limit
select * from other.p limit 3;
select id, upper(name) from other.p as x limit 3 offset 2
--> query:
-->   select * from v1 AS `p` limit 3
-->   v1 = other.p [*] at most 3
--> query:
-->   select id, upper(name) from v2 as x limit 3 offset 2
-->   v2 = other.p [id, name] at most 5

--# rows that are chosen
select * from other.p where id = 1 limit 3;
select * from other.p order by id limit 3;
select distinct day from other.p limit 3;
select max(id) from other.p limit 3;
select id from other.p union all select id from other.p limit 3;
select * from (select * from other.p limit 3) limit 5;
select explode(array(id, 1)) from other.p limit 3;
select mean(hour) from other.p limit 1;
select any(hour = 1) from other.p limit 1;
select my_sum(id) from other.p limit 1;
select row_number() over (order by id) from other.p limit 3
--> query:
-->   select * from v1 AS `p` where id = 1 limit 3
-->   v1 = other.p [*]
--> query:
-->   select * from v2 AS `p` order by id limit 3
-->   v2 = other.p [*]
--> query:
-->   select distinct day from v3 AS `p` limit 3
-->   v3 = other.p [day]
--> query:
-->   select max(id) from v4 AS `p` limit 3
-->   v4 = other.p [id]
--> query:
-->   select id from v5 AS `p` union all select id from v6 AS `p` limit 3
-->   v5 = other.p [id]
-->   v6 = other.p [id]
--> query:
-->   select * from (select * from v7 AS `p` limit 3) limit 5
-->   v7 = other.p [*]
--> query:
-->   select explode(array(id, 1)) from v8 AS `p` limit 3
-->   v8 = other.p [id]
--> query:
-->   select mean(hour) from v9 AS `p` limit 1
-->   v9 = other.p [hour]
--> query:
-->   select any(hour = 1) from v10 AS `p` limit 1
-->   v10 = other.p [hour]
--> query:
-->   select my_sum(id) from v11 AS `p` limit 1
-->   v11 = other.p [id]
--> query:
-->   select row_number() over (order by id) from v12 AS `p` limit 3
-->   v12 = other.p [id]
