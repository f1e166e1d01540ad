-- What the Spark suites of Apache Paimon ask, in own words.

--# insert by name reorders fields of a struct
create table t1 (id int not null, info struct<Nick: string, Name: string>);
create table t2 (id int not null, info struct<name: string, nick: string>);
insert into t1 values (1, struct('Ally', 'Alice'));
insert into t2 by name select * from t1;
select * from t2
--> 1 | {name: Alice, nick: Ally}

--# insert by name, fields of other types in another order
create table t1 (id int, info struct<Age: int, Name: string>);
create table t2 (id int, info struct<name: string, age: int>);
insert into t1 values (1, struct(30, 'Alice')), (2, struct(25, 'Bob')), (3, null);
insert into t2 by name select * from t1;
select * from t2 order by id
--> 1 | {name: Alice, age: 30}
--> 2 | {name: Bob, age: 25}
--> 3 | null

--# insert by name, structs inside an array
create table t1 (id int, items array<struct<Age: int, Name: string>>);
create table t2 (id int, items array<struct<name: string, age: bigint>>);
insert into t1 values (1, array(struct(30, 'Alice'), struct(25, 'Bob'))), (2, array()), (3, null);
insert into t2 by name select * from t1;
select * from t2 order by id
--> 1 | [{name: Alice, age: 30}, {name: Bob, age: 25}]
--> 2 | []
--> 3 | null

--# insert by name, structs as values of a map
create table t1 (id int, m map<string, struct<b: int, a: int>>);
create table t2 (id int, m map<string, struct<a: int, b: int>>);
insert into t1 values (1, map('x', named_struct('b', 2, 'a', 1)));
insert into t2 by name select * from t1;
select m['x'].a, m['x'].b from t2
--> 1 | 2

--# insert by name, a struct in a struct
create table t1 (id int, info struct<details: struct<Age: int, Name: string>>);
create table t2 (id int, info struct<details: struct<name: string, age: int>>);
insert into t1 values (1, struct(struct(30, 'Alice')));
insert into t2 by name select * from t1;
select * from t2
--> 1 | {details: {name: Alice, age: 30}}

--# insert by name of a struct with a field that the table does not have
create table t2 (id int, info struct<name: string>);
insert into t2 by name select 1 as id, named_struct('name', 'a', 'other', 'b') as info
--! other

--# insert by position takes fields of structs by position
create table t2 (id int, info struct<name: string, nick: string>);
insert into t2 values (1, struct('a', 'b'));
insert into t2 select 2, named_struct('nick', 'c', 'name', 'd');
select * from t2 order by id
--> 1 | {name: a, nick: b}
--> 2 | {name: c, nick: d}

--# insert with a list of columns and by name
create table t1 (col1 string, col2 int, col3 double, col4 string);
create table t2 (col2 int, col3 double, col1 string not null, col4 string);
insert into table t1 values ("Hello", 1, 1.1, "pt1"), ("Paimon", 3, 3.3, "pt2");
insert into t2 (col1, col2, col3, col4) select * from t1;
select * from t2 order by col2
--> 1 | 1.1 | Hello | pt1
--> 3 | 3.3 | Paimon | pt2
insert overwrite t2 by name select col1, col2 from t2;
select * from t2 order by col2
--> 1 | null | Hello | null
--> 3 | null | Paimon | null

--# insert by name of a column twice
create table t1 (col1 string, col2 int);
insert into t1 by name select 'a' as col1, 2 as col1
--! col1

--# insert by name of an unknown column
create table t1 (col1 string, col2 int);
insert into t1 by name select 'a' as col1, 2 as colx
--! colx

--# insert of too few columns
create table t1 (col1 string, col2 int);
insert into t1 values ('a')
--! columns

--# insert of null into a column that is not null
create table t2 (col1 string not null, col2 int);
insert into t2 by name select 1 as col2
--! col1

--# overwrite of the whole partitioned table
create table t (a int, b int, c string) partitioned by (a);
insert into t values (1, 1, '1'), (2, 2, '2');
insert overwrite t values (1, 3, '3');
select * from t order by a, b
--> 1 | 3 | 3

--# overwrite of the whole partitioned table with a key
create table t (a int, b int, c string, primary key (a, b)) partitioned by (a);
insert into t values (1, 1, '1'), (2, 2, '2');
insert overwrite t values (1, 3, '3');
select * from t order by a, b
--> 1 | 3 | 3

--# overwrite of one partition
create table t (a int, b int, c string) partitioned by (a) tblproperties ('bucket-key' = 'b', 'bucket' = '3');
insert into t values (1, 1, '1'), (2, 2, '2');
insert overwrite t partition (a = 1) values (5, '5'), (7, '7');
select * from t order by a, b
--> 1 | 5 | 5
--> 1 | 7 | 7
--> 2 | 2 | 2

--# dynamic overwrite keeps other partitions
create table t (a int, b int, c string) partitioned by (a);
insert into t values (1, 1, '1'), (2, 2, '2');
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t values (1, 3, '3');
select * from t order by a, b
--> 1 | 3 | 3
--> 2 | 2 | 2

--# static overwrite of a part of the partition columns
create table t (a int, b string, pt1 string, pt2 int) partitioned by (pt1, pt2);
insert into t values (1, 'a', 'p1', 11), (2, 'b', 'p1', 11), (3, 'c', 'p1', 22), (4, 'd', 'p2', 22);
insert overwrite t partition (pt2 = 22) values (3, 'c2', 'p1'), (4, 'd2', 'p3');
select * from t order by a
--> 1 | a | p1 | 11
--> 2 | b | p1 | 11
--> 3 | c2 | p1 | 22
--> 4 | d2 | p3 | 22
insert overwrite t partition (pt1 = 'p1', pt2 = 11) values (5, 'e');
select * from t order by a
--> 3 | c2 | p1 | 22
--> 4 | d2 | p3 | 22
--> 5 | e | p1 | 11

--# dynamic overwrite of a part of the partition columns
create table t (a int, b string, pt1 string, pt2 int) partitioned by (pt1, pt2);
insert into t values (1, 'a', 'p1', 11), (3, 'c', 'p1', 22), (4, 'd', 'p2', 22);
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t partition (pt2 = 22) values (3, 'c2', 'p1'), (5, 'd2', 'p3');
select * from t order by a
--> 1 | a | p1 | 11
--> 3 | c2 | p1 | 22
--> 4 | d | p2 | 22
--> 5 | d2 | p3 | 22

--# dynamic overwrite of a whole partition without rows empties it
create table t (a int, pt int) partitioned by (pt);
insert into t values (1, 1), (2, 2);
set spark.sql.sources.partitionOverwriteMode = dynamic;
insert overwrite t partition (pt = 1) select 5 where false;
select * from t
--> 2 | 2

--# the table's own option of overwrites
create table t (a int, pt int) partitioned by (pt) tblproperties ('dynamic-partition-overwrite' = 'true');
insert into t values (1, 1), (2, 2);
insert overwrite t values (3, 1);
select * from t order by pt
--> 3 | 1
--> 2 | 2

--# drop of a partition by a part of its columns
create table t (a int, dt int, hh string) partitioned by (dt, hh);
insert into t values (1, 20230816, '1132'), (2, 20230817, '1134');
alter table t drop partition (hh = '1134');
select a from t order by a
--> 1

--# drop of a whole partition
create table t (a int, dt int, hh string, primary key (a, dt, hh)) partitioned by (dt, hh);
insert into t values (1, 20230816, '1132'), (2, 20230817, '1134');
alter table t drop partition (dt = 20230817, hh = '1134');
select a from t
--> 1

--# partitions shown with a part of their columns
create table t (a int, dt int, hh string) partitioned by (dt, hh);
insert into t values (1, 20230816, '1132'), (2, 20230817, '1134');
show partitions t partition (dt = 20230816)
--> dt=20230816/hh=1132

--# char is padded to its length
create table t (a varchar(10), b char(10), c string);
insert into t values ('a', 'b', 'c');
select a, concat(b, '|'), length(b), c from t where b = 'b'
--> a | b         | | 10 | c

--# text that is longer than varchar
create table t (a varchar(3), b char(5));
insert into t values ('abcd', 'x')
--! 3
select count(*) from t
--> 0

--# text that is longer than char
create table t (a varchar(3), b char(5));
insert into t values ('abc', 'abcdef')
--! 5

--# spaces behind text are cut to the length of varchar
create table t (a varchar(3));
insert into t values ('ab     ');
select concat(a, '|') from t
--> ab |

--# update to text that is too long
create table t (id int, a varchar(3), primary key (id));
insert into t values (1, 'abc');
update t set a = 'abcd'
--! 3
select a from t
--> abc

--# the file of a row by input_file_name
create table t (id int, dt string) partitioned by (dt);
insert into t values (1, 'x'), (2, 'y');
select id, input_file_name() like '%/dt=x/bucket-0/data-%.parquet' from t order by id
--> 1 | true
--> 2 | false

--# the file of a row by input_file_name, ORC with buckets
create table t (id int, v string) tblproperties ('bucket' = '3', 'bucket-key' = 'id', 'file.format' = 'orc');
insert into t values (1, 'x'), (2, 'y');
select count(*), count(distinct input_file_name()) > 0, min(input_file_name()) like '%/bucket-%.orc' from t
--> 2 | true | true

--# metadata columns of a table without a key
create table t (id int, dt string) partitioned by (dt);
insert into t select id, 'x' from range(0, 3, 1, 1);
select id, __paimon_file_path like '%/dt=x/bucket-0/%', __paimon_row_index, __paimon_partition, __paimon_bucket from t order by id
--> 0 | true | 0 | {dt: x} | 0
--> 1 | true | 1 | {dt: x} | 0
--> 2 | true | 2 | {dt: x} | 0

--# merge inserts with qualified names
create table t (a int, b int, c string, primary key (a));
insert into t values (1, 10, 'c1'), (2, 20, 'c2');
merge into t using (values (1, 100, 'c11'), (3, 300, 'c33')) as source(a, b, c) on t.a = source.a
when matched then update set t.b = source.b, c = source.c
when not matched then insert (t.a, t.b, t.c) values (source.a, source.b, source.c);
select * from t order by a
--> 1 | 100 | c11
--> 2 | 20 | c2
--> 3 | 300 | c33

--# merge inserts with an alias before the names
create table t (a int, b int);
insert into t values (1, 10);
merge into t as x using (select 2 as a, 20 as b) s on x.a = s.a when not matched then insert (x.a, x.b) values (a, b);
select * from t order by a
--> 1 | 10
--> 2 | 20

--# merge takes structs by name
create table t (id int, s struct<a: int, b: string>, primary key (id));
insert into t values (1, struct(1, 'x'));
merge into t using (select 1 as id, named_struct('b', 'y', 'a', 2) as s union all select 2, named_struct('b', 'z', 'a', 3)) u on t.id = u.id
when matched then update set * when not matched then insert *;
select * from t order by id
--> 1 | {a: 2, b: y}
--> 2 | {a: 3, b: z}

--# merge sets a struct of other order
create table t (id int, s struct<a: int, b: string>);
insert into t values (1, struct(1, 'x'));
merge into t using (select 1 as id, named_struct('b', 'y', 'a', 2) as s) u on t.id = u.id
when matched then update set s = u.s;
select * from t
--> 1 | {a: 2, b: y}

--# update sets a struct of other order
create table t (id int, s struct<a: int, b: string>, primary key (id));
insert into t values (1, struct(1, 'x'));
update t set s = named_struct('b', 'y', 'a', 2);
select * from t
--> 1 | {a: 2, b: y}

--# merge sets an array of structs of other order
create table t (id int, s array<struct<a: int, b: string>>, primary key (id));
insert into t values (1, array(struct(1, 'x')));
merge into t using (select 1 as id, array(named_struct('b', 'y', 'a', 2)) as s) u on t.id = u.id
when matched then update set s = u.s;
select * from t
--> 1 | [{a: 2, b: y}]

--# merge with a clause that can never be reached
create table t (key int, v int);
merge into t using (select 1 as key) s on t.key = s.key
when not matched by source then delete when not matched by source and t.key < 3 then delete
--! condition

--# merge with all kinds of clauses
create table t (a int, b int, c string, primary key (a));
insert into t values (1, 10, 'c1'), (2, 20, 'c2'), (3, 30, 'c3'), (4, 40, 'c4'), (5, 50, 'c5');
merge into t using (values (1, 100, 'c11'), (3, 300, 'c33'), (5, 500, 'c55'), (7, 700, 'c77'), (9, 900, 'c99')) as s(a, b, c) on t.a = s.a
when matched and t.a = 5 then update set b = s.b + t.b
when matched and s.c > 'c2' then update set *
when matched then delete
when not matched and s.c > 'c9' then insert (a, b, c) values (s.a, s.b * 1.1, s.c)
when not matched then insert *;
select * from t order by a
--> 2 | 20 | c2
--> 3 | 300 | c33
--> 4 | 40 | c4
--> 5 | 550 | c5
--> 7 | 700 | c77
--> 9 | 990 | c99

--# merge in which two source rows update one
create table t (a int, b int, primary key (a));
insert into t values (1, 10);
merge into t using (values (1, 100), (1, 200)) as s(a, b) on t.a = s.a when matched then update set b = s.b
--! several source rows

--# explain of an insert
create table t (id int, v string);
explain insert into t values (1, 'a');
select count(*) from t
--> 0

--# explain of update, delete and merge changes nothing
create table t (id int, v string, primary key (id));
insert into t values (1, 'a');
explain update t set v = 'b';
explain delete from t where id = 1;
explain merge into t using (select 1 as id) s on t.id = s.id when matched then delete;
select * from t
--> 1 | a

--# update through a temporary view
--? no error, expected: view
create table t (id int, v string, primary key (id));
insert into t values (1, 'a');
create or replace temporary view paimon_view_1 as select * from t;
update paimon_view_1 set v = 'b'
--! view
select * from t
--> 1 | a

--# delete through a temporary view
create table t (id int, v string);
insert into t values (1, 'a');
create or replace temporary view paimon_view_2 as select id from t;
delete from paimon_view_2 where id = 1
--! view

--# merge into a temporary view
--? no error, expected: view
create table t (id int, v string, primary key (id));
create or replace temporary view paimon_view_3 as select * from t;
merge into paimon_view_3 v using (select 1 as id) s on v.id = s.id when matched then delete
--! view

--# default of an array, a map and a struct
--? found ['1 | [a, b] | 1 | {a: 1, b: z}', '2 | [c] | null | {a: 1, b: z}']
create table t (id int, tags array<string> default array('a', 'b'), m map<string, int> default map('x', 1), s struct<a: int, b: string> default struct(1, 'z'));
insert into t (id) values (1);
insert into t values (2, array('c'), null, default);
select id, tags, m['x'], s from t order by id
--> 1 | [a, b] | 1 | {a: 1, b: z}
--> 2 | [c] | 1 | {a: 1, b: z}

--# default of a plain column
create table t (id int, n int default 7, s string default 'x', d date default date'2024-01-31');
insert into t (id) values (1);
select * from t
--> 1 | 7 | x | 2024-01-31

--# postponed buckets
--? with a log: give a number of buckets
create table t (k int, v int, primary key (k)) tblproperties ('bucket' = '-2');
select count(*) from t
--> 0

--# a key without the partition column
create table t (pt int, k int, v int, primary key (k)) partitioned by (pt)
--! pt

--# procedures answer true
--? unknown procedure 'rename_branch'
create table t (id int, v string, primary key (id)) tblproperties ('bucket' = '1');
insert into t values (1, 'a');
call sys.create_tag(table => 't', tag => 'one', snapshot => 1)
--> true
call sys.create_branch(table => 't', branch => 'b', tag => 'one')
--> true
call sys.rename_branch(table => 't', from_branch => 'b', to_branch => 'c')
--> true
call sys.delete_branch(table => 't', branch => 'c')
--> true
call sys.delete_tag(table => 't', tag => 'one')
--> true

--# the same tag twice
create table t (id int);
insert into t values (1);
insert into t values (2);
call sys.create_tag(table => 't', tag => 'one', snapshot => 1);
call sys.create_tag(table => 't', tag => 'one', snapshot => 2)
--! one

--# a tag whose name is a number
--? '20250122' cannot be the name of a tag
create table t (id int);
insert into t values (1);
call sys.create_tag(table => 't', tag => '20250122', snapshot => 1);
insert into t values (2);
select * from t version as of '20250122'
--> 1

--# rollback to a snapshot and to a tag
create table t (id int);
insert into t values (1);
insert into t values (2);
call sys.create_tag(table => 't', tag => 'two', snapshot => 2);
call sys.rollback(table => 't', version => '1');
select * from t
--> 1

--# rollback to a tag by its version
create table t (id int);
insert into t values (1);
call sys.create_tag(table => 't', tag => 'one');
insert into t values (2);
call sys.rollback(table => 't', version => 'one');
select * from t
--> 1

--# expire_snapshots with options
create table t (id int);
insert into t values (1);
insert into t values (2);
insert into t values (3);
call sys.expire_snapshots(table => 't', options => 'snapshot.num-retained.max=1, snapshot.num-retained.min=1');
select count(*) from t$snapshots
--> 1

--# expire_partitions with a formatter
create table t (k string, pt string, primary key (k, pt)) partitioned by (pt);
insert into t values ('a', '2024-06-01'), ('b', '9024-06-01');
call sys.expire_partitions(table => 't', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')
--> pt=2024-06-01
select * from t
--> b | 9024-06-01

--# expire_partitions with a pattern of two columns
create table t (k string, pt string, hm string, primary key (k, pt, hm)) partitioned by (pt, hm);
insert into t values ('a', '20240601', '0800'), ('b', '90240601', '0800');
call sys.expire_partitions(table => 't', expiration_time => '1 d', timestamp_formatter => 'yyyyMMdd HHmm', timestamp_pattern => '$pt $hm');
select k from t
--> b

--# compact of partitions in quotes
create table t (id int, pt string, primary key (id, pt)) partitioned by (pt) tblproperties ('bucket' = '1', 'write-only' = 'true');
insert into t values (1, 'p1'), (1, 'p2');
insert into t values (2, 'p1'), (2, 'p2');
call sys.compact(table => 't', partitions => 'pt="p1"');
select partition, count(*) from t$files group by partition order by partition
--> {p1} | 1
--> {p2} | 2

--# compact with options
create table t (id int, primary key (id)) tblproperties ('bucket' = '1', 'write-only' = 'true');
insert into t values (1);
insert into t values (2);
call sys.compact(table => 't', compact_strategy => 'full', options => 'target-file-size=1 mb');
select count(*) from t$files
--> 1

--# remove_orphan_files with parallelism and mode
create table t (id int);
insert into t values (1);
call sys.remove_orphan_files(table => 't', parallelism => 2, mode => 'local');
select * from t
--> 1

--# rescale to another number of buckets
create table t (id int, v string, primary key (id)) tblproperties ('bucket' = '2');
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
call sys.rescale(table => 't', bucket_num => 4);
select * from t order by id
--> 1 | a
--> 2 | b
--> 3 | c
insert into t values (2, 'z');
select v from t where id = 2
--> z

--# changes between snapshots by function
--? paimon_incremental_query
create table t (a int, b int, primary key (a)) tblproperties ('bucket' = '1');
insert into t values (1, 1);
insert into t values (2, 2);
insert into t values (3, 3);
select * from paimon_incremental_query('t', 1, 3) order by a
--> 2 | 2
--> 3 | 3

--# time travel by seconds
create table t (id int);
insert into t values (1);
select * from t timestamp as of 4000000000
--> 1

--# time travel by snapshot and by tag
create table t (id int);
insert into t values (1);
insert into t values (2);
call sys.create_tag(table => 't', tag => 'first', snapshot => 1);
select * from t version as of 1
--> 1
select * from t version as of 'first'
--> 1

--# a branch is written alone
create table t (id int, v string);
insert into t values (1, 'a');
call sys.create_tag(table => 't', tag => 'one', snapshot => 1);
call sys.create_branch(table => 't', branch => 'b', tag => 'one');
insert into `t$branch_b` values (2, 'b');
select * from `t$branch_b` order by id
--> 1 | a
--> 2 | b
select * from t
--> 1 | a

--# aggregation engine
create table t (k int, s bigint, m int, l string, primary key (k)) tblproperties ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.s.aggregate-function' = 'sum', 'fields.m.aggregate-function' = 'max', 'fields.l.aggregate-function' = 'last_non_null_value');
insert into t values (1, 1, 5, 'a');
insert into t values (1, 2, 3, null);
select * from t
--> 1 | 3 | 5 | a

--# partial update
create table t (k int, a int, b string, primary key (k)) tblproperties ('bucket' = '1', 'merge-engine' = 'partial-update');
insert into t values (1, 1, null);
insert into t values (1, null, 'x');
select * from t
--> 1 | 1 | x

--# first row
create table t (k int, v string, primary key (k)) tblproperties ('bucket' = '1', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup');
insert into t values (1, 'a');
insert into t values (1, 'b');
call sys.compact(table => 't');
select * from t
--> 1 | a

--# a sequence field decides
create table t (k int, seq int, v string, primary key (k)) tblproperties ('bucket' = '1', 'sequence.field' = 'seq');
insert into t values (1, 5, 'new');
insert into t values (1, 3, 'old');
select * from t
--> 1 | 5 | new

--# schema evolution by alter
create table t (id int, v string);
insert into t values (1, 'a');
alter table t add column n int;
alter table t rename column v to w;
insert into t values (2, 'b', 7);
select * from t order by id
--> 1 | a | null
--> 2 | b | 7
alter table t drop column n;
alter table t alter column id type bigint;
select * from t where id = 2
--> 2 | b

--# a nested column is added and renamed
create table t (id int, s struct<a: int, b: string>);
insert into t values (1, struct(1, 'x'));
alter table t add column s.c int;
alter table t rename column s.a to z;
insert into t values (2, struct(2, 'y', 3));
select id, s.z, s.b, s.c from t order by id
--> 1 | 1 | x | null
--> 2 | 2 | y | 3

--# partitions of every type
create table t (a int, d date, l bigint, b boolean) partitioned by (d, l, b);
insert into t values (1, date'2024-01-31', 5, true), (2, null, null, null);
select * from t where d = date'2024-01-31' and l = 5 and b
--> 1 | 2024-01-31 | 5 | true
select a from t where d is null
--> 2

--# delete with a condition on partition and value
create table t (id int, v string, dt string, primary key (id, dt)) partitioned by (dt);
insert into t values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
delete from t where dt = 'x' and id = 1;
delete from t where dt = 'y';
select * from t
--> 2 | b | x

--# update with a subquery
create table t (id int, v string, primary key (id));
create table u (id int, v string);
insert into t values (1, 'a'), (2, 'b');
insert into u values (2, 'z');
update t set v = (select max(v) from u) where id in (select id from u);
select * from t order by id
--> 1 | a
--> 2 | z

--# update of the primary key
create table t (id int, v string, primary key (id));
insert into t values (1, 'a');
update t set id = 2
--! primary key

--# truncate
create table t (id int, v string, primary key (id));
insert into t values (1, 'a');
truncate table t;
select count(*) from t
--> 0

--# count, min and max
create table t (id int, v string);
insert into t values (1, 'a'), (5, 'z'), (null, null);
select count(*), count(id), min(id), max(id), min(v) from t
--> 3 | 2 | 1 | 5 | a

--# show create table and describe run
create table t (id int not null comment 'the id', v string, primary key (id)) comment 'a table' tblproperties ('bucket' = '1');
describe t;
describe extended t;
show create table t;
show tblproperties t;
select count(*) from t
--> 0

--# options that Paimon has and that change nothing here
create table t (id int) tblproperties ('source.split.target-size' = '1 mb', 'tag.automatic-creation' = 'none', 'dynamic-bucket.assigner-parallelism' = '2');
insert into t values (1);
select * from t
--> 1

--# incremental functions
create table t (id int, v string);
insert into t values (1, 'a');
insert into t values (2, 'b');
insert into t values (3, 'c');
select id, v from paimon_incremental_query('t', 1, 3) order by id
--> 2 | b
--> 3 | c
select count(*) from paimon_incremental_query('t', '1', '2') x where x.id = 2
--> 1
select count(*) from paimon_incremental_between_timestamp('t', '2000-01-01 00:00:00', '2100-01-01 00:00:00')
--> 3

--# a partition is dropped by a part of the keys
create table t (id int, a string, b int) partitioned by (a, b);
insert into t values (1, 'x', 1), (2, 'x', 2), (3, 'y', 1);
alter table t drop partition (a = 'x');
select id from t
--> 3
alter table t drop partition (a = 'x')
--! no partition

--# a timestamp partition is named by a literal and by its text
create table t (id int, d timestamp_ntz, e timestamp) partitioned by (d, e);
insert into t partition (d = timestamp_ntz'2024-01-01 00:00:00', e = timestamp'2024-01-01 12:00:00') values (1);
insert into t values (2, timestamp_ntz'2024-01-02 00:00:00', timestamp'2024-01-01 12:00:00');
insert overwrite t partition (d = '2024-01-02 00:00:00.000000', e = '2024-01-01 12:00:00.000000') values (3);
select id, e = timestamp'2024-01-01 12:00:00' from t order by id
--> 1 | true
--> 3 | true
alter table t drop partition (e = timestamp'2024-01-01 12:00:00');
select count(*) from t
--> 0
