-- What the Spark suites of Apache Iceberg ask of changes of rows, in own words.

--# the first matching clause acts
create table t (id int, v string);
insert into t values (1, 'one'), (2, 'two');
merge into t using (values (1, 'new-1'), (2, 'new-2')) as s(id, v) on t.id = s.id
when matched and s.id = 1 then update set v = s.v
when matched and s.v = 'new-1' then delete
when not matched then insert (v, id) values (s.v, s.id);
select * from t order by id
--> 1 | new-1
--> 2 | two

--# inserts alone may match several rows
create table t (id string, v string);
insert into t values ('a', 'v1'), ('b', 'v2');
merge into t using (values ('a', 'x1'), ('a', 'x2'), ('c', 'v3'), ('d', 'v4'), ('d', 'v5')) as s(id, v) on t.id = s.id
when not matched then insert *;
select * from t order by id, v
--> a | v1
--> b | v2
--> c | v3
--> d | v4
--> d | v5

--# an insert with a condition and columns in another order
create table t (id int, v int);
insert into t values (1, 1);
merge into t using (values (1, 11, true), (2, 21, true), (2, 22, false)) as s(id, v, is_new) on t.id = s.id
when not matched and is_new = true then insert (v, id) values (s.v + 100, s.id);
select * from t order by id
--> 1 | 1
--> 2 | 121

--# names in any case
create table t (id int, a int, b string);
insert into t values (1, 2, 'old');
merge into t using (values (1, -2, 'n1'), (2, -20, 'n2')) as source(id, c1, c2) on t.iD = source.Id
when matched then update set B = c2, A = c1, t.Id = source.ID
when not matched then insert (b, A, iD) values (c2, c1, id);
select * from t order by id
--> 1 | -2 | n1
--> 2 | -20 | n2

--# several inserts, the last for all the rest
create table t (id int, dep string);
insert into t values (0, 'd0');
merge into t using (values (1, 'd1'), (2, 'd2'), (3, 'd3')) as s(id, dep) on t.id = s.id
when not matched and s.id = 1 then insert (dep, id) values (s.dep, -1) when not matched then insert *;
select * from t order by id
--> -1 | d1
--> 0 | d0
--> 2 | d2
--> 3 | d3

--# several inserts with conditions leave the rest out
create table t (id int, dep string);
insert into t values (0, 'd0');
merge into t using (values (1, 'd1'), (2, 'd2'), (3, 'd3')) as s(id, dep) on t.id = s.id
when not matched and s.id = 1 then insert (dep, id) values (s.dep, -1) when not matched and s.id = 2 then insert *;
select * from t order by id
--> -1 | d1
--> 0 | d0
--> 2 | d2

--# a star takes the columns by name
create table t (id int, badge int, dep string);
insert into t values (1, 1000, 'a'), (6, 6000, 'b');
merge into t using (values (1001, 1, 'x'), (6006, 6, 'y'), (7007, 7, 'z')) as s(badge, id, dep) on t.id = s.id
when matched then update set * when not matched then insert *;
select id, badge, dep from t order by id
--> 1 | 1001 | x
--> 6 | 6006 | y
--> 7 | 7007 | z

--# a condition without columns
create table t (id int, dep string);
merge into t using (values (1, 'a'), (2, 'b')) as s(id, dep) on 1 <> 1
when matched then update set * when not matched then insert *;
select * from t order by id
--> 1 | a
--> 2 | b

--# merge into a column that is NOT NULL
create table t (id int not null, dep string);
insert into t values (1, 'a'), (6, 'b');
merge into t using (values (2, 'x'), (1, 'y'), (6, 'z')) as s(id, dep) on t.id = s.id
when matched and t.id = 1 then update set * when matched and t.id = 6 then delete
when not matched and s.id = 2 then insert *;
select * from t order by id
--> 1 | y
--> 2 | x

--# a field of a struct that was NULL
create table t (id int, s struct<n1: int, n2: int>);
insert into t values (1, null);
merge into t using (values (1, -10)) as c(id, n1) on t.id = c.id when matched then update set t.s.n1 = c.n1;
select s.n1, s.n2 from t
--> -10 | null

--# a column that is not named is NULL in an insert
create table t (id int, value bigint);
insert into t values (1, 100);
merge into t using (values (2, 200)) as s(c1, c2) on t.id = s.c1 when not matched then insert (id) values (s.c1);
select * from t order by id
--> 1 | 100
--> 2 | null

--# only updates, and rows without a match keep their NULL
create table t (id int, value int);
insert into t values (1, 2), (6, null);
merge into t using (values (1, 100)) as s(id, value) on t.id = s.id when matched then update set id = 123;
select * from t order by id
--> 6 | null
--> 123 | 2

--# only deletes, and rows without a match keep their NULL
create table t (id int, value int);
insert into t values (1, 2), (6, null);
merge into t using (values (1, 100)) as s(id, value) on t.id = s.id when matched then delete;
select * from t
--> 6 | null

--# a filter of the target in the condition, with a NULL in it
create table t (id int, dep string);
insert into t values (null, 'one'), (1, 'one'), (6, 'six');
merge into t using (values (2, 'b'), (1, 'a'), (6, 'f')) as s(id, dep) on t.id = s.id and t.id < 3
when matched then update set *;
select * from t order by id
--> null | one
--> 1 | a
--> 6 | six

--# a merge with itself
create table t (id int, v string);
insert into t values (1, 'v1'), (2, 'v2');
merge into t using t s on t.id = s.id when matched and t.id = 1 then update set v = 'x' when not matched then insert *;
select * from t order by id
--> 1 | x
--> 2 | v2

--# a subquery of itself as the source
create table t (id int, v string);
insert into t values (1, 'v1'), (2, 'v2');
merge into t using (select id from t where id < 2) s on t.id = s.id when matched then update set v = 'x'
when not matched then insert (v, id) values ('none', -1);
select * from t order by id
--> 1 | x
--> 2 | v2

--# set operations as the source
create table t (id int, dep string);
insert into t values (1, 'one'), (6, 'six');
merge into t using (select 1 as id, 'a' as dep union all select 6, 'f' union select 2, 'b') s on t.id = s.id
when matched and t.id = 1 then update set * when matched and t.id = 6 then delete when not matched then insert *;
select * from t order by id
--> 1 | a
--> 2 | b

--# two source rows that change one row
create table t (id int, dep string);
insert into t values (1, 'one'), (6, 'six');
merge into t using (values (1, 'a'), (1, 'b'), (2, 'c'), (6, 'f')) as s(id, dep) on t.id = s.id
when matched and t.id = 1 then update set * when matched and t.id = 6 then delete when not matched then insert *
--! several source rows match one row
select * from t order by id
--> 1 | one
--> 6 | six

--# an unknown column of the target
create table t (id int, c struct<n1: int>);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when matched then update set t.invalid = s.c2
--! invalid

--# an unknown field of the target
create table t (id int, c struct<n1: int>);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when matched then update set t.c.invalid = s.c2
--! invalid

--# an unknown column in an insert
create table t (id int, c int);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when not matched then insert (id, invalid) values (c1, 0)
--! invalid

--# an insert of a field
create table t (id int, c struct<n2: int>);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when not matched then insert (id, c.n2) values (c1, null)
--! n2

--# an insert of a column twice
create table t (id int, c int);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when not matched then insert (id, id) values (c1, null)
--! id

--# an insert that leaves out a column that is NOT NULL
create table t (id int, c int not null);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when not matched then insert (id) values (c1)
--! 'c'

--# an update of a field of an array and of a map
create table t (id int, a array<struct<c1: int, c2: int>>, m map<string, string>);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when matched then update set t.a.c1 = s.c2
--! not a struct
update t set m.key = 'new'
--! not a struct

--# a condition that is not deterministic
create table t (id int, v int);
insert into t values (1, 1);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 and rand() > t.id when matched then update set v = -1
--! deterministic
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when matched and rand() > t.id then delete
--! deterministic

--# aggregates in conditions
create table t (id int, v int);
insert into t values (1, 1);
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 and max(t.id) = 1 when matched then update set v = -1
--! aggregate
merge into t using (values (1, 2)) as s(c1, c2) on t.id = s.c1 when matched and sum(t.id) < 1 then update set v = -1
--! aggregate

--# a column of the target in the condition of an insert
create table t (id int, c2 int);
insert into t values (1, 2);
merge into t using (values (1, 11)) as s(id, value) on t.id = s.id when not matched and c2 = 1 then insert (id, c2) values (s.id, null)
--! c2

--# subqueries in conditions of a merge
create table t (id int, v int);
insert into t values (1, 1), (2, 2);
create table limits (most int);
insert into limits values (2);
merge into t using (values (1, 10), (2, 20), (3, 30)) as s(id, v) on t.id = s.id
when matched and t.id < (select max(most) from limits) then update set v = s.v
when not matched and s.id not in (select most from limits) then insert *;
select * from t order by id
--> 1 | 10
--> 2 | 2
--> 3 | 30

--# conditions with NULL of an update
create table t (id int, dep string);
insert into t values (0, null), (1, 'hr'), (2, 'hardware');
update t set id = -1 where dep = null;
update t set id = -1 where dep = 'software';
select * from t order by id
--> 0 | null
--> 1 | hr
--> 2 | hardware
update t set dep = 'none', id = -1 where dep <=> null;
select * from t order by id
--> -1 | none
--> 1 | hr
--> 2 | hardware

--# an update of fields, of a struct to NULL and of a whole struct
create table t (id int, s struct<c1: int, c2: struct<a: array<int>, m: map<string, string>>>);
insert into t values (1, named_struct('c1', 2, 'c2', named_struct('a', array(1, 2), 'm', map('a', 'b'))));
update t set s.c1 = -1, s.c2.m = map('k', 'v'), s.c2.a = array(-1);
select s.c1, s.c2.a, s.c2.m['k'] from t
--> -1 | [-1] | v
update t set s.c1 = null, s.c2 = null where id in (1);
select s.c1, s.c2 from t
--> null | null
update t set s = named_struct('c1', 1, 'c2', named_struct('a', array(1), 'm', null));
select s.c1, s.c2.a, s.c2.m from t
--> 1 | [1] | null

--# an update with a number in a text
create table t (id int, s string);
insert into t values (1, 'value');
update t set s = -1 where id = 1;
select * from t
--> 1 | -1

--# an update by subqueries with NULL
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
create or replace temporary view ids as select * from values (0), (1), (cast(null as int)) as v(value);
update t set id = -1 where id in (select * from ids) and dep in (select * from values ('software'), ('hr') as d(v));
select * from t order by id nulls last
--> -1 | hr
--> 2 | hardware
--> null | hr
update t set id = 5 where id is null or id in (select value + 1 from ids);
select * from t order by id, dep
--> -1 | hr
--> 5 | hardware
--> 5 | hr

--# an update by a subquery of two columns
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
update t set dep = 'x', id = -1 where (id, dep) in (select * from values (cast(null as int), 'hr'), (1, 'hr') as e(id, dep));
select * from t order by id nulls last
--> -1 | x
--> 2 | hardware
--> null | hr

--# NOT IN with a NULL changes nothing
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
create or replace temporary view ids as select * from values (-1), (-2), (cast(null as int)) as v(value);
update t set id = -1 where id not in (select * from ids);
select * from t order by id nulls last
--> 1 | hr
--> 2 | hardware
--> null | hr
update t set id = -1 where id not in (select * from ids where value is not null);
select * from t order by id nulls last, dep
--> -1 | hardware
--> -1 | hr
--> null | hr

--# an update by EXISTS and NOT EXISTS
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
create or replace temporary view ids as select * from values (-1), (-2), (cast(null as int)) as v(value);
update t set dep = 'x', id = -1 where exists (select 1 from ids u where t.id = u.value + 2);
update t set id = 7 where not exists (select 1 from ids u where t.id = u.value) and t.id is not null;
select * from t order by id nulls last
--> -1 | x
--> 7 | hardware
--> null | hr

--# an update from its own rows
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hr');
update t set dep = 'x' where id in (select id + 1 from t);
update t set dep = 'y' where id = (select count(*) from (select distinct id from t) as d);
select * from t order by id
--> 1 | hr
--> 2 | y
update t set id = (select id - 2 from t where id = 1);
select * from t order by dep
--> -1 | hr
--> -1 | y

--# an update of a column twice
create table t (id int, c struct<n1: int, n2: int>);
update t set t.id = 1, t.c.n1 = 2, t.id = 2
--! id
update t set t.c.n1 = 1, t.id = 2, t.c.n1 = 2
--! n1
update t set c.n1 = 1, c = named_struct('n1', 1, 'n2', 2)
--! c

--# constant conditions of a delete
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware');
delete from t where false;
delete from t where 50 <> 50;
delete from t where 1 > null;
select count(*) from t
--> 2
delete from t where 21 = 21;
select count(*) from t
--> 0

--# a delete of partitions and of rows by one condition
create table t (id int, dep string) partitioned by (dep);
insert into t values (1, 'dep1'), (2, 'dep2'), (null, 'dep3'), (3, 'dep3');
delete from t where dep > 'dep2' or dep = cast(4 as string) or dep = 'dep2';
select * from t
--> 1 | dep1

--# a delete by a part of a partition's name
create table t (id int, dep string) partitioned by (dep);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
delete from t where id = 10 or dep like '%ware';
select * from t order by id nulls last
--> 1 | hr
--> null | hr

--# a delete by a field and another column
create table t (id int, complex struct<c1: int, c2: string>);
insert into t values (1, named_struct('c1', 3, 'c2', 'v1')), (2, named_struct('c1', 2, 'c2', 'v2'));
delete from t where complex.c1 = id + 2;
select id from t
--> 2
delete from t x where x.complex.c1 = id;
select id from t
--> none

--# a delete by NOT IN and EXISTS
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
create or replace temporary view ids as select * from values (-1), (-2), (cast(null as int)) as v(value);
delete from t where id not in (select * from ids);
select count(*) from t
--> 3
delete from t where exists (select 1 from ids d where t.id = d.value + 2) or t.id is null;
select * from t
--> 2 | hardware

--# a delete by a scalar subquery
create table t (id int, dep string);
insert into t values (1, 'hr'), (2, 'hardware'), (null, 'hr');
delete from t where id <= (select min(value) from values (1), (100), (cast(null as int)) as v(value));
select * from t order by id nulls last
--> 2 | hardware
--> null | hr

--# a branch that is not there
create table t (id int, dep string);
insert into t values (1, 'hr');
update t.branch_nothere set id = 2
--! branch

--# columns are added, moved and dropped between rows
create table t (id int, data string);
insert into t values (1, 'a');
alter table t add column point struct<x: int, y: int> after id;
alter table t add column point.z int;
alter table t rename column data to name;
alter table t alter column name first;
insert into t values ('b', 2, named_struct('x', 1, 'y', 2, 'z', 3));
alter table t drop column point.x;
select * from t order by id
--> a | 1 | null
--> b | 2 | {y: 2, z: 3}

--# a wider type
create table t (id int, f float, d decimal(4, 2));
insert into t values (1, 1.5, 2.25);
alter table t alter column id type bigint;
alter table t alter column f type double;
alter table t alter column d type decimal(10, 2);
insert into t values (3000000000, 2.5, 12345678.25);
select * from t order by id
--> 1 | 1.5 | 2.25
--> 3000000000 | 2.5 | 12345678.25

--# values that are always NULL in structs and by name
create table t (id int, s struct<a: int, b: array<int>>, v double);
insert into t by name select null as v, named_struct('b', null, 'a', 1) as s, 1 as id;
insert into t (id, s) select 2, named_struct('a', null, 'b', array(null));
select id, s.a, s.b, v from t order by id
--> 1 | 1 | null | null
--> 2 | null | [null] | null
merge into t using (select 1 as id) c on t.id = c.id when matched then update set s = named_struct('b', null, 'a', null);
select s.a, s.b from t where id = 1
--> null | null
