-- SELECT: the text for Spark, and per lakelog table the columns that are read.

--# a query reads only the columns it names
select name from db.t where id = 1
--> query:
-->   select name from v1 AS `t` where id = 1
-->   v1 = db.t [id, name]

--# a star reads all
select * from db.t;
select t.* from db.t
--> query:
-->   select * from v1 AS `t`
-->   v1 = db.t [*]
--> query:
-->   select t.* from v2 AS `t`
-->   v2 = db.t [*]

--# everything of the text but the table names stays
SELECT  id -- the key; "quoted"
  , /* 两 */ NAME   FROM db . t  -- t
 WHERE name<>'from db.t;' and id in(1,2)
--> query:
-->   SELECT  id -- the key; "quoted"
-->     , /* 两 */ NAME   FROM v1 AS `t`  -- t
-->    WHERE name<>'from db.t;' and id in(1,2)
-->   v1 = db.t [id, name]

--# count(*) is a sum of counts, and where only rows count the cheapest column is read
select count(*) from db.t;
select count(*) from db.u;
select 1 from db.t
--> query:
-->   select coalesce(sum(_lakelog_rows), 0) AS `count(1)` from v1 AS `t`
-->   v1 = db.t [] counted
--> query:
-->   select coalesce(sum(_lakelog_rows), 0) AS `count(1)` from v2 AS `u`
-->   v2 = db.u [] counted
--> query:
-->   select 1 from v3 AS `t`
-->   v3 = db.t [id]

--# an alias of the user stays
select x.id from db.t x;
select x.id from db.t as x where x.name = 'a';
select `x`.`id` from `db`.`t` as `x`
--> query:
-->   select x.id from v1 x
-->   v1 = db.t [id]
--> query:
-->   select x.id from v2 as x where x.name = 'a'
-->   v2 = db.t [id, name]
--> query:
-->   select `x`.`id` from v3 as `x`
-->   v3 = db.t [id]

--# columns are found in any case
SELECT ID, T.NaMe FROM db.t
--> query:
-->   SELECT ID, T.NaMe FROM v1 AS `t`
-->   v1 = db.t [id, name]

--# current database and catalog names
use db;
select id from t;
select id from lakelog.db.t;
select id from Arctic.db.t;
use other;
select extra from t
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id]
--> query:
-->   select id from v2 AS `t`
-->   v2 = db.t [id]
--> query:
-->   select id from v3 AS `t`
-->   v3 = db.t [id]
--> query:
-->   select extra from v4 AS `t`
-->   v4 = other.t [extra]

--# qualified by the database
select db.t.id, db.t.info.a, arctic.db.t.name from db.t;
select db.t.* from arctic.db.t
--> query:
-->   select t.id, t.info.a, t.name from v1 AS `t`
-->   v1 = db.t [id, name, info]
--> query:
-->   select t.* from v2 AS `t`
-->   v2 = db.t [*]

--# struct fields and arrays
select info.a, t.tags[0], t.info.id from db.t
--> query:
-->   select info.a, t.tags[0], t.info.id from v1 AS `t`
-->   v1 = db.t [tags, info]

--# a join of lakelog tables
select a.name, b.amount from db.t a join db.u b on a.id = b.id where b.uid > 1
--> query:
-->   select a.name, b.amount from v1 a join v2 b on a.id = b.id where b.uid > 1
-->   v1 = db.t [id, name]
-->   v2 = db.u [uid, id, amount]

--# an unqualified column counts for each table that has it, so that Spark can say that it is ambiguous
select name, tags from db.t a join db.u b on a.id = b.id
--> query:
-->   select name, tags from v1 a join v2 b on a.id = b.id
-->   v1 = db.t [id, name, tags]
-->   v2 = db.u [id, name]

--# a join with Spark's tables and views
select s.a, t.name from spark_t s left join db.t on s.id = t.id;
select x.id, ts from sourceTable x, db.t y where y.id = x.id
--> query:
-->   select s.a, t.name from spark_t s left join v1 AS `t` on s.id = t.id
-->   v1 = db.t [id, name]
--> query:
-->   select x.id, ts from sourceTable x, v2 y where y.id = x.id
-->   v2 = db.t [id, ts]

--# using and natural joins
select amount from db.t join db.u using (id, name);
select amount from db.t natural join db.u
--> query:
-->   select amount from v1 AS `t` join v2 AS `u` using (id, name)
-->   v1 = db.t [id, name]
-->   v2 = db.u [id, amount, name]
--> query:
-->   select amount from v3 AS `t` natural join v4 AS `u`
-->   v3 = db.t [*]
-->   v4 = db.u [*]

--# tables in a parenthesised join
select x.name, y.uid from (db.t x join db.u y on x.id = y.id);
select * from (db.t x join db.u y on x.id = y.id) z
--> query:
-->   select x.name, y.uid from (v1 x join v2 y on x.id = y.id)
-->   v1 = db.t [id, name]
-->   v2 = db.u [uid, id]
--> query:
-->   select * from (v3 x join v4 y on x.id = y.id) z
-->   v3 = db.t [*]
-->   v4 = db.u [*]

--# comma join, and a star of one side
select t.*, uid from db.t, db.u u where t.id = u.id
--> query:
-->   select t.*, uid from v1 AS `t`, v2 u where t.id = u.id
-->   v1 = db.t [*]
-->   v2 = db.u [uid, id]

--# the same table twice has two reads
select a.name, b.ts from db.t a join db.t b on a.id = b.id
--> query:
-->   select a.name, b.ts from v1 a join v2 b on a.id = b.id
-->   v1 = db.t [id, name]
-->   v2 = db.t [id, ts]

--# tables of the same name in two databases
select a.name, b.extra from db.t a join other.t b on a.id = b.id
--> query:
-->   select a.name, b.extra from v1 a join v2 b on a.id = b.id
-->   v1 = db.t [id, name]
-->   v2 = other.t [id, extra]

--# derived tables pass on only what is used
select x.id from (select * from db.t) x;
select x.id from (select *, upper(name) as big from db.t where ts > now()) x where big = 'A';
select * from (select id, ts from db.t) x
--> query:
-->   select x.id from (select * from v1 AS `t`) x
-->   v1 = db.t [id]
--> query:
-->   select x.id from (select *, upper(name) as big from v2 AS `t` where ts > now()) x where big = 'A'
-->   v2 = db.t [id, name, ts]
--> query:
-->   select * from (select id, ts from v3 AS `t`) x
-->   v3 = db.t [id, ts]

--# a star below distinct, union, group by ordinal or rename is all
select id from (select distinct * from db.t);
select id from (select * from db.arctic union all select * from db.arctic);
select id from (select * from db.t order by 2);
select a from (select * from db.t) as x(a, b, c, d, e);
select a from db.t as x(a, b, c, d, e)
--> query:
-->   select id from (select distinct * from v1 AS `t`)
-->   v1 = db.t [*]
--> query:
-->   select id from (select * from v2 AS `arctic` union all select * from v3 AS `arctic`)
-->   v2 = db.arctic [*]
-->   v3 = db.arctic [*]
--> query:
-->   select id from (select * from v4 AS `t` order by 2)
-->   v4 = db.t [*]
--> query:
-->   select a from (select * from v5 AS `t`) as x(a, b, c, d, e)
-->   v5 = db.t [*]
--> query:
-->   select a from v6 as x(a, b, c, d, e)
-->   v6 = db.t [*]

--# common table expressions
with c as (select * from db.t) select id from c where name = 'a';
with c as (select * from db.t), d as (select id, name from c) select d.id from d join c on c.id = d.id;
with t as (select * from db.u) select amount from t;
with c(a, b) as (select id, name from db.t) select a from c
--> query:
-->   with c as (select * from v1 AS `t`) select id from c where name = 'a'
-->   v1 = db.t [id, name]
--> query:
-->   with c as (select * from v2 AS `t`), d as (select id, name from c) select d.id from d join c on c.id = d.id
-->   v2 = db.t [id, name]
--> query:
-->   with t as (select * from v3 AS `u`) select amount from t
-->   v3 = db.u [amount]
--> query:
-->   with c(a, b) as (select id, name from v4 AS `t`) select a from c
-->   v4 = db.t [id, name]

--# a common table expression named like a table hides it only where it is seen
use db;
select (with t as (select uid from u) select max(uid) from t) from t where id = 1;
with t as (select id from t) select * from t
--> query:
-->   select (with t as (select uid from v1 AS `u`) select max(uid) from t) from v2 AS `t` where id = 1
-->   v1 = db.u [uid]
-->   v2 = db.t [id]
--> query:
-->   with t as (select id from v3 AS `t`) select * from t
-->   v3 = db.t [id]

--# set operations
select id, name from db.t union all select id, name from db.u except select * from db.arctic;
(select id from db.t) intersect (select id from db.u) order by 1
--> query:
-->   select id, name from v1 AS `t` union all select id, name from v2 AS `u` except select * from v3 AS `arctic`
-->   v1 = db.t [id, name]
-->   v2 = db.u [id, name]
-->   v3 = db.arctic [*]
--> query:
-->   (select id from v4 AS `t`) intersect (select id from v5 AS `u`) order by 1
-->   v4 = db.t [id]
-->   v5 = db.u [id, order]

--# subqueries
select id from db.t where id in (select id from db.u where amount > 3);
select (select max(uid) from db.u) from db.t where ts is null
--> query:
-->   select id from v1 AS `t` where id in (select id from v2 AS `u` where amount > 3)
-->   v1 = db.t [id]
-->   v2 = db.u [id, amount]
--> query:
-->   select (select max(uid) from v3 AS `u`) from v4 AS `t` where ts is null
-->   v3 = db.u [uid]
-->   v4 = db.t [ts]

--# correlated subqueries
select name from db.t a where exists (select * from db.u where uid = a.id and amount > 1);
select name from db.t where exists (select 1 from sourceTable s where s.k = tags[0]);
select name from db.t where id = (select max(u.id) from db.u u where u.uid = ts)
--> query:
-->   select name from v1 a where exists (select * from v2 AS `u` where uid = a.id and amount > 1)
-->   v1 = db.t [id, name]
-->   v2 = db.u [uid, amount]
--> query:
-->   select name from v3 AS `t` where exists (select 1 from sourceTable s where s.k = tags[0])
-->   v3 = db.t [name, tags]
--> query:
-->   select name from v4 AS `t` where id = (select max(u.id) from v5 u where u.uid = ts)
-->   v4 = db.t [id, name, ts]
-->   v5 = db.u [uid, id]

--# an unqualified name in a subquery means the nearest table that has it
select uid from db.u where exists (select 1 from db.arctic where name = 'x' and amount = 1)
--> query:
-->   select uid from v1 AS `u` where exists (select 1 from v2 AS `arctic` where name = 'x' and amount = 1)
-->   v1 = db.u [uid, amount]
-->   v2 = db.arctic [name]

--# aggregates, windows, having, order by, named windows
select count(distinct name), sum(id) over w from db.t group by id, tags having max(ts) > now() window w as (order by tags);
select id, row_number() over (partition by name order by ts) r from db.t qualify r = 1;
select struct(*), struct(t.*) from db.t
--> query:
-->   select count(distinct name), sum(id) over w from v1 AS `t` group by id, tags having max(ts) > now() window w as (order by tags)
-->   v1 = db.t [id, name, ts, tags]
--> query:
-->   select id, row_number() over (partition by name order by ts) r from v2 AS `t` qualify r = 1
-->   v2 = db.t [id, name, ts]
--> query:
-->   select struct(*), struct(t.*) from v3 AS `t`
-->   v3 = db.t [*]

--# lateral views and lateral queries
select id, tag from db.t lateral view explode(tags) e as tag;
select a.id, w.n from db.t a, lateral (select count(*) n from db.u b where b.id = a.id and a.name = b.name) w;
select id, tag from db.t, lateral explode(tags) as x(tag)
--> query:
-->   select id, tag from v1 AS `t` lateral view explode(tags) e as tag
-->   v1 = db.t [id, tags]
--> query:
-->   select a.id, w.n from v2 a, lateral (select count(*) n from v3 b where b.id = a.id and a.name = b.name) w
-->   v2 = db.t [id, name]
-->   v3 = db.u [id, name]
--> query:
-->   select id, tag from v4 AS `t`, lateral explode(tags) as x(tag)
-->   v4 = db.t [id, tags]

--# higher-order functions
select transform(tags, x -> concat(x, name)) from db.t
--> query:
-->   select transform(tags, x -> concat(x, name)) from v1 AS `t`
-->   v1 = db.t [name, tags]

--# pivot reads all
select * from db.t pivot (count(id) for name in ('a', 'b'))
--> query:
-->   select * from v1 AS `t` pivot (count(id) for name in ('a', 'b'))
-->   v1 = db.t [*]

--# a sample stands before the alias
select id from db.t tablesample (10 percent) repeatable (3) where id > 1;
select s.id from db.t tablesample (5 rows) s
--> query:
-->   select id from v1 tablesample (10 percent) repeatable (3) AS `t` where id > 1
-->   v1 = db.t [id]
--> query:
-->   select s.id from v2 tablesample (5 rows) s
-->   v2 = db.t [id]

--# a column called like a keyword or a function
select `order` from db.u;
select count from home;
select order from db.u where uid = 1
--> query:
-->   select `order` from v1 AS `u`
-->   v1 = db.u [order]
--> query:
-->   select count from v2 AS `home`
-->   v2 = default.home [count]
--> query:
-->   select order from v3 AS `u` where uid = 1
-->   v3 = db.u [uid, order]

--# the row kind of a change stream
select _row_kind, id from db.t /*+ OPTIONS('read.mode'='log') */
--> query:
-->   select _row_kind, id from v1 AS `t`
-->   v1 = db.t [id, _row_kind] read.mode=log

--# a star with except reads all, for the names in it must exist
select * except (tags) from db.t
--> query:
-->   select * except (tags) from v1 AS `t`
-->   v1 = db.t [*]

--# system tables
select total from db.`t$snapshots`;
select * from db.t$snapshots
--> query:
-->   select total from v1 AS `t$snapshots`
-->   v1 = db.t$snapshots [total]
--> query:
-->   select * from v2 AS `t$snapshots`
-->   v2 = db.t$snapshots [*]

--# values, table functions, files and queries without tables are Spark's
values (1, 'a'), (2, 'b');
select * from range(3);
select a from parquet.`/tmp/x.parquet`;
select 1;
select * from spark_catalog.db.t
--> query:
-->   values (1, 'a'), (2, 'b')
--> query:
-->   select * from range(3)
--> query:
-->   select a from parquet.`/tmp/x.parquet`
--> query:
-->   select 1
--> query:
-->   select * from spark_catalog.db.t

--# a temporary view hides a lakelog table of the same name
select id from shadow;
select id from default.shadow
--> query:
-->   select id from shadow
--> query:
-->   select id from v1 AS `shadow`
-->   v1 = default.shadow [id]

--# from first, and pipes
from db.t select id;
select * from db.t |> where id = 1 |> select name
--> query:
-->   from v1 AS `t` select id
-->   v1 = db.t [id]
--> query:
-->   select * from v2 AS `t` |> where id = 1 |> select name
-->   v2 = db.t [*]

--# hints of Spark stay
select /*+ BROADCAST(t), COALESCE(2) */ t.id from db.t
--> query:
-->   select /*+ BROADCAST(t), COALESCE(2) */ t.id from v1 AS `t`
-->   v1 = db.t [id]
