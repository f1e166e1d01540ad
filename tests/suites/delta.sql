-- What the Spark suites of Delta Lake ask, in own words.

--# merge, basic case
create table t (key2 int, value int);
insert into t values (2, 2), (1, 4);
merge into t using (values (1, 1), (0, 3)) as source(key1, value) on key1 = key2
when matched then update set key2 = 20 + key1, value = 20 + source.value
when not matched then insert (key2, value) values (key1 - 10, source.value + 10);
select * from t order by key2
--> -10 | 13
--> 2 | 2
--> 21 | 21

--# merge, names of the target in UPDATE and INSERT
create table trgt (key int, value int);
insert into trgt values (2, 2), (1, 4);
merge into trgt using (values (1, 1), (0, 3)) as src(key, value) on src.key = trgt.key
when matched then update set trgt.key = 20 + src.key, trgt.value = 20 + src.value
when not matched then insert (trgt.key, trgt.value) values (src.key - 10, src.value + 10);
select * from trgt order by key
--> -10 | 13
--> 2 | 2
--> 21 | 21

--# merge with an insert of one column
create table t (key int, value int);
insert into t values (2, 2);
merge into t using (values (1, 1)) as s(key, value) on t.key = s.key when not matched then insert (key) values (s.key);
select * from t order by key
--> 1 | null
--> 2 | 2

--# merge: insert in another order of columns
create table t (key int, value int);
merge into t using (values (1, 9)) as s(key, value) on t.key = s.key when not matched then insert (value, key) values (s.value, s.key);
select * from t
--> 1 | 9

--# merge: a column named twice in INSERT
create table t (key int, value int);
merge into t using (values (1, 9)) as s(key, value) on t.key = s.key when not matched then insert (key, key) values (s.value, s.key)
--! twice

--# merge: a clause before the last without a condition
create table t (key int, value int);
merge into t using (values (1, 9)) as s(key, value) on t.key = s.key
when matched then update set value = 1 when matched and s.value > 3 then delete
--! condition

--# merge: not matched clauses without a condition before others
create table t (key int, value int);
merge into t using (values (1, 9)) as s(key, value) on t.key = s.key
when not matched then insert * when not matched and s.value > 3 then insert (key) values (s.key)
--! condition

--# merge: unlimited clauses, the first that fits counts
create table t (key int, value int);
insert into t values (0, 0), (1, 10), (3, 30);
merge into t using (values (0, 0), (1, 1), (2, 2), (3, 3)) as s(key, value) on t.key = s.key
when matched and s.key = 0 then update set value = 100
when matched and s.key <= 1 then delete
when matched then update set value = -1
when not matched and s.key = 9 then insert (key, value) values (9, 9)
when not matched then insert (key, value) values (s.key, s.value + 7);
select * from t order by key
--> 0 | 100
--> 2 | 9
--> 3 | -1

--# merge: source and target have columns of one name
create table t (key int, value int);
insert into t values (1, 1);
merge into t using (values (1, 5)) as s(key, value) on t.key = s.key when matched then update set value = value
--! ambiguous

--# merge: update with the target's value
create table t (key int, value int);
insert into t values (1, 1);
merge into t using (values (1, 5)) as s(key, value) on t.key = s.key when matched then update set value = t.value + s.value;
select * from t
--> 1 | 6

--# merge: conditions on both sides
create table t (key int, value int);
insert into t values (1, 1), (2, 2);
merge into t using (values (1, 5), (2, 6), (3, 7)) as s(key, value) on t.key = s.key and t.key > 1
when matched then update set value = s.value
when not matched and s.key = 3 then insert *;
select * from t order by key
--> 1 | 1
--> 2 | 6
--> 3 | 7

--# merge: not matched by source only
create table t (key int, value int);
insert into t values (1, 10), (2, 20), (3, 30);
merge into t using (values (1, 1)) as s(key, value) on t.key = s.key
when not matched by source and t.key = 2 then update set value = t.value + 1
when not matched by source then delete;
select * from t order by key
--> 1 | 10
--> 2 | 21

--# merge: not matched by source names a column of the source
create table t (key int, value int);
insert into t values (1, 10);
merge into t using (values (2, 1)) as s(key, value) on t.key = s.key when not matched by source then update set value = s.value
--! s

--# merge with schema evolution: star
create table t (key int, value int);
insert into t values (1, 1);
merge with schema evolution into t using (select 1 as key, 2 as value, 'x' as extra union all select 2, 3, 'y') s on t.key = s.key
when matched then update set * when not matched then insert *;
select * from t order by key
--> 1 | 2 | x
--> 2 | 3 | y

--# merge with schema evolution: named columns
create table t (key int, value int);
insert into t values (1, 1);
merge with schema evolution into t using (select 1 as key, 2 as value, 'x' as extra union all select 2, 3, 'y') s on t.key = s.key
when matched then update set extra = s.extra when not matched then insert (key, value, extra) values (s.key, s.value, s.extra);
select * from t order by key
--> 1 | 1 | x
--> 2 | 3 | y

--# merge without schema evolution does not know a new column
create table t (key int, value int);
merge into t using (select 1 as key, 'x' as extra) s on t.key = s.key when matched then update set extra = s.extra
--! extra

--# merge: update star without a column in the source
create table t (key int, value int);
insert into t values (1, 1);
merge into t using (select 1 as key) s on t.key = s.key when matched then update set *
--! value

--# merge: insert into a struct by name
create table t (key int, s struct<a: int, b: int>);
merge into t using (select 1 as key, named_struct('b', 2, 'a', 1) as s) u on t.key = u.key when not matched then insert *;
select * from t
--> 1 | {a: 1, b: 2}

--# merge: a struct in an array by name
create table t (key int, v array<struct<a: int, b: int>>);
insert into t values (1, null);
merge into t using (select 1 as key, array(named_struct('b', 2, 'a', 1)) as v) u on t.key = u.key when matched then update set *;
select * from t
--> 1 | [{a: 1, b: 2}]

--# update: same column twice
create table t (a int);
update t set a = 1, a = 2
--! twice

--# update: case-insensitive target
create table t (Key int, Value int);
insert into t values (1, 1);
update t set VALUE = 5 where KEY = 1;
select * from t
--> 1 | 5

--# update: a struct by position of its names
create table t (id int, s struct<a: int, b: int>);
insert into t values (1, struct(1, 2));
update t set s = named_struct('b', 20, 'a', 10);
select * from t
--> 1 | {a: 10, b: 20}

--# update: fields of a struct
create table t (id int, s struct<a: int, b: struct<c: int, d: int>>);
insert into t values (1, named_struct('a', 1, 'b', named_struct('c', 2, 'd', 3)));
update t set s.b.c = 20 where s.a = 1;
select * from t
--> 1 | {a: 1, b: {c: 20, d: 3}}

--# update with a like condition and a partition
create table t (key string, value int) partitioned by (key);
insert into t values ('aaa', 1), ('bbb', 2);
update t set value = 9 where key like 'a%';
select * from t order by key
--> aaa | 9
--> bbb | 2

--# update: null literals and null conditions
create table t (key int, value int);
insert into t values (null, 1), (1, null), (2, 2);
update t set value = 7 where key is null or value is null;
select * from t order by value, key
--> 2 | 2
--> null | 7
--> 1 | 7

--# delete: conditions with and, or, not
create table t (key int, value int);
insert into t values (1, 1), (2, 2), (3, 3), (null, 4);
delete from t where not (key = 1) and value < 3;
select * from t order by value
--> 1 | 1
--> 3 | 3
--> null | 4
delete from t where key = 3 or key is null;
select * from t
--> 1 | 1

--# delete from an unknown table
delete from nope where id = 1
--! nope

--# delete with an unknown column
create table t (key int);
delete from t where nope = 1
--! nope

--# insert: columns in another order, BY NAME
create table t (a int, b int, c int);
insert into t by name select 3 as c, 1 as a, 2 as b;
select * from t
--> 1 | 2 | 3

--# insert: a list of columns, missing ones are null
create table t (a int, b int, c int);
insert into t (c, a) values (3, 1);
select * from t
--> 1 | null | 3

--# insert: a struct in a list of columns, its fields by position as in Spark's own tables (Delta: by name)
create table t (a int, s struct<x: int, y: int>);
insert into t (s, a) select named_struct('y', 2, 'x', 1), 5;
select * from t
--> 5 | {x: 2, y: 1}

--# insert: an array of structs BY NAME
create table t (a int, s array<struct<x: int, y: int>>);
insert into t by name select array(named_struct('y', 2, 'x', 1)) as s, 5 as a;
select * from t
--> 5 | [{x: 1, y: 2}]

--# insert: implicit casts of nested values
create table t (s struct<x: bigint, y: double>, l array<bigint>);
insert into t select named_struct('x', 1, 'y', 2), array(1, 2);
select * from t
--> {x: 1, y: 2.0} | [1, 2]

--# insert overwrite: dynamic and static
create table t (a int, p string) partitioned by (p);
insert into t values (1, 'x'), (2, 'y');
insert overwrite t select 3, 'x';
select * from t
--> 3 | x
insert into t values (2, 'y');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t select 4, 'x';
select * from t order by a
--> 2 | y
--> 4 | x

--# insert replace where
create table t (id int, v string);
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
insert into t replace where id >= 2 values (2, 'z');
select * from t order by id
--> 1 | a
--> 2 | z

--# insert replace where with rows outside
create table t (id int, v string);
insert into t values (1, 'a');
insert into t replace where id = 1 values (2, 'z')
--! replace

--# insert with schema evolution
create table t (id int);
insert into t values (1);
insert with schema evolution into t by name select 2 as id, 'x' as v;
select * from t order by id
--> 1 | null
--> 2 | x

--# insert of a select with a common table expression
create table t (id int);
with c as (select 5 as id) insert into t select id from c;
insert into t with d as (select 6 as id) select id from d;
select * from t order by id
--> 5
--> 6

--# versions and restore
create table t (id int);
insert into t values (1);
insert into t values (2);
select count(*) from t version as of 1
--> 1
restore table t to version as of 1;
select * from t
--> 1

--# history of a table
create table t (id int);
insert into t values (1);
insert into t values (2);
describe history t;
describe detail t;
optimize t;
select * from t order by id
--> 1
--> 2

--# vacuum keeps what is read
create table t (id int);
insert into t values (1);
insert overwrite t values (2);
vacuum t;
select * from t
--> 2

--# varchar and char: lengths in UPDATE and MERGE
create table t (id int, v varchar(3), c char(3), primary key (id));
insert into t values (1, 'abc', 'ab');
merge into t using (select 1 as id, 'abcd' as v) s on t.id = s.id when matched then update set v = s.v
--! 3
select v, concat(c, '|') from t
--> abc | ab |

--# char: filters ignore spaces behind
create table t (id int, c char(5));
insert into t values (1, 'ab'), (2, 'ab   '), (3, 'abc');
select id from t where c = 'ab' order by id
--> 1
--> 2
select id from t where c in ('abc', 'x')
--> 3
select id from t where 'ab' = c order by id
--> 1
--> 2
select a.id, b.id from t a join t b on a.c = b.c and a.id < b.id
--> 1 | 2
delete from t where c = 'ab';
select id from t
--> 3

--# varchar as a key and as a partition
create table t (k varchar(5), p varchar(5), v int, primary key (k, p)) partitioned by (p);
insert into t values ('a', 'x', 1), ('b', 'y', 2);
insert into t values ('a', 'x', 3);
select * from t order by k
--> a | x | 3
--> b | y | 2
insert into t values ('toolong', 'x', 1)
--! 5

--# generated names of a subquery in FROM
create table t (a int, b string);
insert into t values (1, 'x'), (2, 'y');
select m, c from (select max(a) as m, count(*) as c from t) q
--> 2 | 2

--# window and set operations
create table t (a int, b string);
insert into t values (1, 'x'), (2, 'x'), (3, 'y');
select a, row_number() over (partition by b order by a desc) as r from t order by a
--> 1 | 2
--> 2 | 1
--> 3 | 1
select b from t union select 'z' order by b
--> x
--> y
--> z
select b from t except select 'x'
--> y

--# alter table: columns and comments
create table t (a int);
insert into t values (1);
alter table t add columns (b string comment 'text', c int);
alter table t alter column b comment 'more';
alter table t alter column c first;
select * from t
--> null | 1 | null

--# alter table: a default for later rows
create table t (a int, b int);
insert into t values (1, 1);
alter table t alter column b set default 9;
insert into t (a) values (2);
alter table t alter column b drop default;
insert into t (a) values (3);
select * from t order by a
--> 1 | 1
--> 2 | 9
--> 3 | null

--# check of NOT NULL in structs and rows
create table t (a int not null);
insert into t values (null)
--! null
select count(*) from t
--> 0

--# changes as a function
create table t (id int, v string, primary key (id)) tblproperties ('bucket' = '1');
insert into t values (1, 'a');
insert into t values (2, 'b');
select count(*) from table_changes('t', 2, 2)
--> 1

--# create table with a generated column
create table t (id int, twice int generated always as (id * 2))
--! generated

--# create table with a constraint
create table t (id int);
alter table t add constraint positive check (id > 0)
--! constraint

--# drop and create again
create table t (id int);
insert into t values (1);
drop table t;
create table t (v string);
select count(*) from t
--> 0

--# a table of the same name in two databases
create table t (id int);
insert into t values (1);
create database if not exists suites_other;
create or replace table suites_other.t (id int);
insert into suites_other.t values (2);
select t.id, o.id from t join suites_other.t o on t.id < o.id
--> 1 | 2

--# nested types: maps, arrays, structs are read as written
create table t (m map<string, array<struct<a: int>>>, s struct<l: array<int>>);
insert into t values (map('k', array(struct(1), null)), struct(array(1, null)));
select m['k'][0].a, m['k'][1], s.l from t
--> 1 | null | [1, null]

--# decimals keep their digits
create table t (d decimal(38, 10));
insert into t values (1234567890123456789012345678.0123456789);
select * from t
--> 1234567890123456789012345678.0123456789

--# a decimal that does not fit
create table t (d decimal(4, 2));
insert into t values (1234.5)
--! 1234.5

--# special numbers
create table t (f double);
insert into t values (double('NaN')), (double('Infinity')), (0.0), (null);
select count(*) from t where f = double('NaN')
--> 1
select count(*) from t where f > 0
--> 2

--# empty text, null and blanks differ
create table t (s string, p string) partitioned by (p);
insert into t values ('', 'a'), (null, 'b'), (' ', 'c');
select p from t where s = ''
--> a
select p from t where s is null
--> b

--# unicode and quotes
create table t (s string);
insert into t values ('naïve ☃'), ("it's"), ('a\\b');
select s from t where s = "it's"
--> it's
select length(s) from t where s like 'na%'
--> 7
