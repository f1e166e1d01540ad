-- What the Spark suites of Apache Iceberg ask, in own words.

--# merge into an empty target
create table t (id int, dep string);
merge into t using (values (1, 'emp-1'), (2, 'emp-2')) as s(id, dep) on t.id = s.id when not matched then insert *;
select * from t order by id
--> 1 | emp-1
--> 2 | emp-2

--# merge without a source row
create table t (id int, dep string);
insert into t values (1, 'hr');
merge into t using (select 1 as id, 'x' as dep where false) s on t.id = s.id
when matched then update set * when not matched then insert *;
select * from t
--> 1 | hr

--# merge with only updates
create table t (id int, dep string);
insert into t values (1, 'emp-id-one'), (6, 'emp-id-six');
merge into t using (values (2, 'emp-id-2'), (1, 'emp-id-1'), (6, 'emp-id-6')) as s(id, dep) on t.id = s.id
when matched and t.id = 1 then update set *;
select * from t order by id
--> 1 | emp-id-1
--> 6 | emp-id-six

--# merge with only deletes
create table t (id int, dep string);
insert into t values (1, 'a'), (6, 'b');
merge into t using (values (1, 'z'), (6, 'y')) as s(id, dep) on t.id = s.id when matched and t.id = 6 then delete;
select * from t
--> 1 | a

--# merge with two matches that delete
create table t (id int, dep string);
insert into t values (1, 'a'), (6, 'b');
merge into t using (values (1, 'x'), (1, 'y')) as s(id, dep) on t.id = s.id when matched then delete;
select * from t
--> 6 | b

--# merge with a null condition
create table t (id int, dep string);
insert into t values (1, 'a');
merge into t using (select 1 as id, 'x' as dep) s on t.id = s.id
when matched and null then update set dep = 'y' when matched then update set dep = 'z';
select * from t
--> 1 | z

--# merge on null keys finds no match
create table t (id int, dep string);
insert into t values (null, 'a'), (1, 'b');
merge into t using (values (cast(null as int), 'x')) as s(id, dep) on t.id = s.id
when matched then delete when not matched then insert *;
select * from t order by dep
--> null | a
--> 1 | b
--> null | x

--# merge by null-safe equality
create table t (id int, dep string);
insert into t values (null, 'a');
merge into t using (values (cast(null as int), 'x')) as s(id, dep) on t.id <=> s.id
when matched then update set dep = s.dep;
select * from t
--> null | x

--# merge on false
create table t (id int, dep string);
insert into t values (1, 'a');
merge into t using (values (1, 'b')) as s(id, dep) on 1 != 1 when not matched then insert *;
select * from t order by dep
--> 1 | a
--> 1 | b

--# merge with a query as a source
create table t (id int, dep string);
create table src (id int, dep string);
insert into t values (1, 'a');
insert into src values (1, 'x'), (2, 'y');
merge into t using (select id, concat(dep, '!') as dep from src where id is not null) s on t.id = s.id
when matched then update set dep = s.dep when not matched then insert *;
select * from t order by id
--> 1 | x!
--> 2 | y!

--# merge with an expression with CTE as a source
--? table or view `t` cannot be found
create table t (id int, dep string);
insert into t values (1, 'a');
with c as (select 1 as id, 'q' as dep) merge into t using c on t.id = c.id when matched then update set dep = c.dep;
select * from t
--> 1 | q

--# merge with itself as the source
create table t (id int, v string);
insert into t values (1, 'a'), (2, 'b');
merge into t using t s on t.id = s.id when matched and t.id = 1 then update set v = 'x' when not matched then insert *;
select * from t order by id
--> 1 | x
--> 2 | b

--# merge by source: update and delete
create table t (id int, v string);
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
merge into t using (select 1 as id, 'x' as v) s on t.id = s.id
when matched then update set v = s.v
when not matched by source and t.id = 2 then update set v = 'gone'
when not matched by source then delete;
select * from t order by id
--> 1 | x
--> 2 | gone

--# merge updates a nested field
create table t (id int, s struct<c1: int, c2: struct<a: array<int>, m: map<string, string>>>);
insert into t values (1, named_struct('c1', 2, 'c2', named_struct('a', array(1, 2), 'm', map('a', 'b'))));
merge into t using (select 1 as id, -2 as c1) u on t.id = u.id
when matched then update set t.s.c1 = u.c1, t.s.c2.a = array(-1, -2), t.s.c2.m = map('k', 'v');
select s.c1, s.c2.a, s.c2.m['k'] from t
--> -2 | [-1, -2] | v

--# merge refuses two values of one column
create table t (id int, s struct<a: int, b: int>);
merge into t using (select 1 as id) u on t.id = u.id when matched then update set t.s.a = 1, t.s = named_struct('a', 1, 'b', 2)
--! twice

--# merge with implicit casts
create table t (id int, b bigint, f float);
insert into t values (1, 1, 1.0);
merge into t using (select 1 as id, 2 as b, 3 as f) s on t.id = s.id when matched then update set b = s.b, f = s.f;
select * from t
--> 1 | 2 | 3.0

--# merge into a partitioned table moves rows
create table t (id int, dep string) partitioned by (dep);
insert into t values (1, 'hr'), (2, 'it');
merge into t using (values (1, 'it')) as s(id, dep) on t.id = s.id when matched then update set dep = s.dep;
select * from t order by id
--> 1 | it
--> 2 | it

--# merge with a subquery in a condition
create table t (id int, v int);
insert into t values (1, 1), (2, 2);
merge into t using (select 1 as id, 10 as v) s on t.id = s.id and t.id < (select max(value) from values (5) as x(value))
when matched then update set v = s.v;
select * from t order by id
--> 1 | 10
--> 2 | 2

--# update of all rows
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'it');
update t set dep = 'x';
select * from t order by id
--> 1 | x
--> 2 | x

--# update that finds nothing
create table t (id int, dep string);
insert into t values (1, 'hr');
update t set dep = 'x' where id = 9;
update t set dep = 'x' where null;
select * from t
--> 1 | hr

--# update with an alias
create table t (id int, dep string);
insert into t values (1, 'hr');
update t as x set x.dep = 'y' where x.id = 1;
select * from t
--> 1 | y

--# update swaps columns
create table t (a int, b int);
insert into t values (1, 2);
update t set a = b, b = a;
select * from t
--> 2 | 1

--# update with in, not in and exists
create table t (id int, dep string);
create table u (value int);
insert into t values (1, 'a'), (2, 'b'), (null, 'c');
insert into u values (1), (null);
update t set dep = 'in' where id in (select value from u);
update t set dep = 'not in' where id not in (select value from u where value is not null);
update t set dep = concat(dep, '!') where exists (select 1 from u where u.value = t.id);
select * from t order by dep
--> null | c
--> 1 | in!
--> 2 | not in

--# update of a nested field
create table t (id int, s struct<c1: int, c2: struct<a: int, b: string>>);
insert into t values (1, named_struct('c1', 1, 'c2', named_struct('a', 2, 'b', 'x')));
update t set s.c1 = -1, s.c2.b = 'y';
select * from t
--> 1 | {c1: -1, c2: {a: 2, b: y}}

--# update of an array's element
--? 'a' of table 't' is not a struct
create table t (id int, a array<int>);
insert into t values (1, array(1, 2));
update t set a.element = 1
--! element

--# update of an unknown column
create table t (id int);
update t set nope = 1
--! nope

--# update with a value that does not fit
create table t (id int, n int not null);
insert into t values (1, 1);
update t set n = null
--! not null

--# update of a partition column
create table t (id int, p string) partitioned by (p);
insert into t values (1, 'a'), (2, 'b');
update t set p = 'c' where id = 1;
select * from t order by id
--> 1 | c
--> 2 | b

--# delete without a condition
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'it');
delete from t;
select count(*) from t
--> 0

--# delete on an empty table
create table t (id int);
delete from t where id in (1);
select count(*) from t
--> 0

--# delete with a null condition
create table t (id int);
insert into t values (0), (1), (null);
delete from t where id = null;
select count(*) from t
--> 3
delete from t where id <=> null;
select * from t order by id
--> 0
--> 1

--# delete with in and null
create table t (id int);
insert into t values (0), (1), (null);
delete from t where id in (0, null);
select * from t order by id
--> null
--> 1
delete from t where id not in (1, null);
select count(*) from t
--> 2

--# delete with a scalar subquery and exists
create table t (id int, dep string);
create table u (value int);
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
insert into u values (1), (2);
delete from t where id <= (select min(value) from u);
select id from t order by id
--> 2
--> 3
delete from t where exists (select 1 from u where u.value = t.id);
select id from t
--> 3

--# delete with not exists
create table t (id int);
create table u (value int);
insert into t values (-1), (-2), (3);
insert into u values (-2), (-3);
delete from t where not exists (select 1 from u where u.value = t.id);
select * from t
--> -2

--# delete of an alias
create table t (id int);
insert into t values (1), (2);
delete from t as x where x.id = 1;
select * from t
--> 2

--# delete with an aggregate
create table t (id int);
delete from t where max(id) > 1
--! aggregate

--# delete from a partitioned table by a nested field
create table t (id int, s struct<c1: int, c2: int>, p string) partitioned by (p);
insert into t values (1, named_struct('c1', 3, 'c2', 1), 'x'), (2, named_struct('c1', 2, 'c2', 2), 'y');
delete from t where s.c1 = 3;
select id from t
--> 2

--# insert by position with casts
create table t (id bigint, f double, d date);
insert into t values (1, 2, date'2024-01-31');
select * from t
--> 1 | 2.0 | 2024-01-31

--# insert of a number that does not fit
create table t (id tinyint);
insert into t values (1000)
--! overflow

--# insert of text into a number
create table t (id int);
insert into t values ('abc')
--! abc

--# insert overwrite by filter of another table
create table t (id bigint, data string);
create table src (id bigint, data string);
insert into t values (1, 'a'), (2, 'b');
insert into src values (3, 'c');
insert overwrite t select * from src;
select * from t
--> 3 | c

--# create table as select keeps nested types
create table src (id int, s struct<a: int>, l array<string>);
insert into src values (1, struct(5), array('x'));
create table t as select * from src;
select s.a, l from t
--> 5 | [x]

--# create table as select, partitioned
create table t partitioned by (p) as select 1 as id, 'a' as p union all select 2, 'b';
select id from t where p = 'b'
--> 2

--# replace table as select
create table t (id int);
insert into t values (1);
create or replace table t as select 'x' as v;
select * from t
--> x

--# tags and branches by DDL
create table t (id int);
insert into t values (1);
alter table t create tag one;
insert into t values (2);
alter table t create branch b1 as of version 1;
select * from t version as of 'one'
--> 1
alter table t create tag if not exists one;
alter table t drop tag one;
alter table t drop branch b1

--# a tag that is there is an error
create table t (id int);
insert into t values (1);
alter table t create tag one;
insert into t values (2);
alter table t create tag one
--! one

--# dropping a tag that is not there
create table t (id int);
insert into t values (1);
alter table t drop tag nope
--! nope

--# time travel by version
create table t (id int);
insert into t values (1);
insert into t values (2);
select count(*) from t for version as of 1
--> 1
select count(*) from t for system_version as of 2
--> 2

--# aggregates are right with deletes and nulls
create table t (id int, v double);
insert into t values (1, 1.5), (2, null), (3, 2.5), (4, double('NaN'));
delete from t where id = 3;
select count(*), count(v), min(v), min(id), max(id) from t
--> 3 | 2 | 1.5 | 1 | 4

--# filters on every type
create table t (i int, b bigint, f float, d decimal(10, 2), s string, bo boolean, da date, bi binary);
insert into t values (1, 2, 3.5, 4.25, 'x', true, date'2024-01-31', X'01FF');
select i from t where b = 2 and f = 3.5 and d = 4.25 and s = 'x' and bo and da = date'2024-01-31' and bi = X'01FF'
--> 1

--# filters by like, in and between
create table t (s string);
insert into t values ('abc'), ('abd'), ('b%c'), (null);
select s from t where s like 'ab%' order by s
--> abc
--> abd
select s from t where s like 'b\\%c'
--> b%c
select s from t where s in ('abc', null)
--> abc
select count(*) from t where s between 'abd' and 'c'
--> 2

--# timestamps with and without a zone
create table t (z timestamp, n timestamp_ntz);
insert into t values (timestamp'2024-01-31 12:00:00', timestamp_ntz'2024-01-31 12:00:00');
select count(*) from t where z = timestamp'2024-01-31 12:00:00' and n = timestamp_ntz'2024-01-31 12:00:00'
--> 1

--# history and snapshots as tables
create table t (id int);
insert into t values (1);
insert into t values (2);
select count(*) from t$snapshots
--> 2
select count(*) from t$files
--> 2

--# case-insensitive names
create table t (Id int, Data string);
insert into t (ID, data) values (1, 'a');
update t set DATA = 'b' where iD = 1;
select ID, dAtA from t
--> 1 | b

--# reserved words and special names as columns
create table t (`select` int, `a b` string, `a.b` int);
insert into t values (1, 'x', 2);
update t set `a b` = 'y' where `select` = 1;
select `select`, `a b`, `a.b` from t
--> 1 | y | 2
