-- What aggregates over a log of changes do: they subtract retractions, or are refused.

--# count, sum and avg
select count(*), COUNT(name) as n, sum(p.id), avg(p.id) as mean from other.p /*+ OPTIONS('read.mode'='log') */ where id > 1;
select sum(id) / count(*) as mean, count(1) from other.p /*+ OPTIONS('read.mode'='log') */
--> query:
-->   select coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)`, (coalesce(sum(case when (name) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) as n, case when coalesce(sum(case when (p.id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (p.id) else -(p.id) end) end AS `sum(id)`, (sum(case when _row_kind in ('+I', '+U') then (p.id) else -(p.id) end) / nullif(coalesce(sum(case when (p.id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0), 0)) as mean from v1 AS `p`  where id > 1
-->   v1 = other.p [id, name, _row_kind] read.mode=log
--> query:
-->   select (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) / (coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) as mean, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)` from v2 AS `p`
-->   v2 = other.p [id, _row_kind] read.mode=log

--# groups whose rows were all taken back disappear
select day, count(*) from other.p /*+ OPTIONS('read.mode'='log') */ group by day;
select day, sum(id) as s from other.p /*+ OPTIONS('read.mode'='log') */ group by day having sum(id) > 2 order by s desc limit 3;
select day from other.p /*+ OPTIONS('read.mode'='log') */ group by day order by day
--> query:
-->   select day, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)` from v1 AS `p`  group by day having coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0
-->   v1 = other.p [day, _row_kind] read.mode=log
--> query:
-->   select day, (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) as s from v2 AS `p`  group by day having coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 and ( (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) > 2) order by s desc limit 3
-->   v2 = other.p [day, id, _row_kind] read.mode=log
--> query:
-->   select day from v3 AS `p`  group by day having coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 order by day
-->   v3 = other.p [day, _row_kind] read.mode=log

--# a stream into a table with a key deletes the groups that would disappear
insert into db.t (id, name) select hour, count(*) from other.p /*+ OPTIONS('read.mode'='log') */ group by hour;
insert into db.t (id, name) select hour, sum(id) as s from other.p /*+ OPTIONS('read.mode'='log') */ group by hour having sum(id) > 2 or hour is distinct from 3;
insert into db.t (id, name) select 1, count(*) from other.p /*+ OPTIONS('read.mode'='log') */;
insert into db.t (id, name) select 1, count(*) from other.p /*+ OPTIONS('read.mode'='log') */ having count(*) > 1;
insert into db.u (id, name) select hour, count(*) from other.p /*+ OPTIONS('read.mode'='log') */ group by hour
--> insert into db.t (id, name):
-->   select hour, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)`, case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then '+I' else '-D' end AS _row_kind from v1 AS `p`  group by hour
-->   v1 = other.p [hour, _row_kind] read.mode=log
--> insert into db.t (id, name):
-->   select hour, (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) as s, case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 and ( (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) > 2 or hour is distinct from 3) then '+I' else '-D' end AS _row_kind from v2 AS `p`  group by hour
-->   v2 = other.p [id, hour, _row_kind] read.mode=log
--> insert into db.t (id, name):
-->   select 1, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)` from v3 AS `p`
-->   v3 = other.p [id, _row_kind] read.mode=log
--> insert into db.t (id, name):
-->   select 1, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)`, case when ( (coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) > 1) then '+I' else '-D' end AS _row_kind from v4 AS `p`
-->   v4 = other.p [id, _row_kind] read.mode=log
--> insert into db.u (id, name):
-->   select hour, coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) AS `count(1)` from v5 AS `p`  group by hour having coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0
-->   v5 = other.p [hour, _row_kind] read.mode=log

--# HAVING names aliases, and a group without rows divides by nothing
insert into db.t (id, name) select hour, sum(id) as id from other.p /*+ OPTIONS('read.mode'='log') */ group by hour having id > 2 and sum(id) < 9;
insert into db.t (id, name) select hour, 100 * count(id) / count(*) part from other.p /*+ OPTIONS('read.mode'='log') */ group by hour having part > 2
--> insert into db.t (id, name):
-->   select hour, (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) as id, case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 and ( ((case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end)) > 2 and (case when coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then sum(case when _row_kind in ('+I', '+U') then (id) else -(id) end) end) < 9) then '+I' else '-D' end AS _row_kind from v1 AS `p`  group by hour
-->   v1 = other.p [id, hour, _row_kind] read.mode=log
--> insert into db.t (id, name):
-->   select hour, case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then 100 * (coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) / (coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) end part, case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 and ( (case when coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0) <> 0 then 100 * (coalesce(sum(case when (id) is null then 0 when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) / (coalesce(sum(case when _row_kind in ('+I', '+U') then 1 else -1 end), 0)) end) > 2) then '+I' else '-D' end AS _row_kind from v2 AS `p`  group by hour
-->   v2 = other.p [id, hour, _row_kind] read.mode=log

--# a query that names the row kind is left as it is
select count(*), max(id) from other.p /*+ OPTIONS('read.mode'='log') */ where _row_kind = '+I'
--> query:
-->   select count(*), max(id) from v1 AS `p`  where _row_kind = '+I'
-->   v1 = other.p [id, _row_kind] read.mode=log

--# what no sign can mend
select max(id) from other.p /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 21: max over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select max(id) from other.p /*+ OPTIONS('read.mode'='log') */
-->                       ^

--# DISTINCT
select count(distinct id) from other.p /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 32: count over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select count(distinct id) from other.p /*+ OPTIONS('read.mode'='log') */
-->                                  ^

--# distinct rows
select distinct id from other.p /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 25: DISTINCT over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select distinct id from other.p /*+ OPTIONS('read.mode'='log') */
-->                           ^

--# an aggregate over a subquery of the changes
select count(*) from (select id from other.p /*+ OPTIONS('read.mode'='log') */) x
--> UnsupportedStatement:
-->   line 1, column 38: count over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select count(*) from (select id from other.p /*+ OPTIONS('read.mode'='log') */) x
-->                                        ^

--# an aggregate over a common table expression of the changes
with c as (select id from other.p /*+ OPTIONS('read.mode'='log') */) select count(*) from c
--> UnsupportedStatement:
-->   line 1, column 27: count over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   with c as (select id from other.p /*+ OPTIONS('read.mode'='log') */) select count(*) from c
-->                             ^

--# an aggregate over a join
select sum(t.id) from other.p /*+ OPTIONS('read.mode'='log') */ as p join db.t t on p.id = t.id
--> UnsupportedStatement:
-->   line 1, column 23: sum over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select sum(t.id) from other.p /*+ OPTIONS('read.mode'='log') */ as p join db.t t on p.id = t.id
-->                         ^

--# a window
select id, row_number() over (partition by day order by hour) from other.p /*+ OPTIONS('read.mode'='log') */
--> UnsupportedStatement:
-->   line 1, column 68: a window function over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select id, row_number() over (partition by day order by hour) from other.p /*+ OPTIONS('read.mode'='log') */
-->                                                                      ^

--# an aggregate over other rows
select id from other.p /*+ OPTIONS('read.mode'='log') */ where id in (select max(id) from db.t)
--> query:
-->   select id from v1 AS `p`  where id in (select max(id) from v2 AS `t`)
-->   v1 = other.p [id] read.mode=log
-->   v2 = db.t [id]

--# IN asks for rows, not for changes
select id from db.t where id in (select id from other.p /*+ OPTIONS('read.mode'='log') */)
--> UnsupportedStatement:
-->   line 1, column 49: IN asks for the rows of table other.p, and its changes are a stream: read its current rows ('read.mode'='union' or 'file') or its log as a batch ('streaming'='false'), or write a join
-->   select id from db.t where id in (select id from other.p /*+ OPTIONS('read.mode'='log') */)
-->                                                   ^

--# EXISTS
select id from db.t where not exists (select 1 from other.p /*+ OPTIONS('read.mode'='log') */ p where p.id = t.id and _row_kind = '+I')
--> UnsupportedStatement:
-->   line 1, column 53: EXISTS asks for the rows of table other.p, and its changes are a stream: read its current rows ('read.mode'='union' or 'file') or its log as a batch ('streaming'='false'), or write a join
-->   select id from db.t where not exists (select 1 from other.p /*+ OPTIONS('read.mode'='log') */ p where p.id = t.id and _row_kind = '+I')
-->                                                       ^

--# a common table expression that IN asks
with c as (select id from other.p /*+ OPTIONS('read.mode'='log') */) select id from db.t where id in (select id from c)
--> UnsupportedStatement:
-->   line 1, column 27: IN asks for the rows of table other.p, and its changes are a stream: read its current rows ('read.mode'='union' or 'file') or its log as a batch ('streaming'='false'), or write a join
-->   with c as (select id from other.p /*+ OPTIONS('read.mode'='log') */) select id from db.t where id in (select id from c)
-->                             ^

--# a scalar subquery
select id, (select max(id) from other.p /*+ OPTIONS('read.mode'='log') */) from db.t
--> UnsupportedStatement:
-->   line 1, column 33: max over the changes of table other.p would count retractions (-U, -D) as rows: read its current rows ('read.mode'='union' or 'file'), read its log as a batch ('streaming'='false'), or handle retractions with _row_kind, as in sum(case when _row_kind in ('+I', '+U') then v else -v end)
-->   select id, (select max(id) from other.p /*+ OPTIONS('read.mode'='log') */) from db.t
-->                                   ^
