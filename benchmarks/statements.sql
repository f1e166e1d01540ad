-- Statements that people write on tables of a lake. `--# group | title` begins one; `--@ a, b` the way in which these
-- systems write it, `--@ a: none` that one has no such statement, `--@ flink: …` what Arctic's Flink connector is
-- documented to do. {t} is a table with the rows (1, 'a', 2024-01-01), (2, 'b', 2024-01-02), {p} the same partitioned
-- by its day, {rows} the same without a primary key, {nested} has the row (1, {a: 1, b: 'x'}); {v1} and {v2} are the
-- first two versions of {t}, {new} is a name without a table, {c} {db} the catalog and the database, {like} the clause
-- that makes a table the system's. The last statement is what counts.

--# Tables | CREATE TABLE
create table {new} (id int, name string) {like}
--@ flink: yes

--# Tables | NOT NULL, nested types
create table {new} (id int not null, info struct<a: int, tags: array<string>>, m map<string, int>) {like}
--@ flink: yes

--# Tables | CREATE TABLE IF NOT EXISTS, comments
create table if not exists {t} (id int comment 'of the row') {like} comment 'a table'
--@ flink: Flink's own

--# Tables | PRIMARY KEY
create table {new} (id int, name string, primary key (id)) {like}
--@ paimon
create table {new} (id int, name string) using paimon tblproperties ('primary-key' = 'id')
--@ flink: yes

--# Tables | PARTITIONED BY
create table {new} (id int, day date) {like} partitioned by (day)
--@ flink: yes

--# Tables | PARTITIONED BY a column with its type
create table {new} (id int) {like} partitioned by (day date)
--@ flink: no

--# Tables | PARTITIONED BY a function of a column
create table {new} (id int, day date) {like} partitioned by (months(day))
--@ flink: no

--# Tables | CLUSTER BY
create table {new} (id int, name string) {like} cluster by (id)
--@ flink: no

--# Tables | LOCATION
create table {new} (id int) {like} location '{place}/{plainname}_elsewhere'
--@ flink: no

--# Tables | column DEFAULT
create table {new} (id int, n int default 7) {like};
insert into {new} (id) values (1);
select assert_true(n = 7) from {new}
--@ delta
create table {new} (id int, n int default 7) {like} tblproperties ('delta.feature.allowColumnDefaults' = 'supported');
insert into {new} (id) values (1);
select assert_true(n = 7) from {new}
--@ flink: no

--# Tables | computed column
create table {new} (id int, twice int generated always as (id * 2)) {like}
--@ flink: no

--# Tables | IDENTITY column
create table {new} (id bigint generated always as identity, name string) {like}
--@ flink: no

--# Tables | CHECK constraint
alter table {t} add constraint positive check (id > 0)
--@ flink: no

--# Tables | CREATE TABLE … AS SELECT
create table {new} {like} as select * from {t}
--@ flink: no

--# Tables | CREATE TABLE … LIKE
create table {new} like {t}
--@ flink: yes

--# Tables | CREATE OR REPLACE TABLE … AS SELECT
create or replace table {t} {like} as select id from {t}
--@ flink: no

--# Tables | REPLACE TABLE with columns
replace table {t} (id bigint) {like}
--@ flink: no

--# Tables | CREATE TABLE … AS SELECT, partitioned, with options
create table {new} {like} partitioned by (day) tblproperties ('my.own' = '1') as select * from {t}
--@ lakelog, paimon
create table {new} {like} partitioned by (day) tblproperties ('snapshot.time-retained' = '2 h') as select * from {t}
--@ flink: no

--# Tables | SHALLOW CLONE
create table {new} shallow clone {t}
--@ flink: no

--# Tables | CREATE VIEW that lasts
create view {new} as select * from {t}
--@ flink: no

--# Tables | DROP TABLE
drop table {t}
--@ flink: yes

--# Tables | DROP TABLE IF EXISTS … PURGE
drop table if exists {t} purge
--@ flink: no

--# Tables | TRUNCATE TABLE
truncate table {t}
--@ flink: no

--# Tables | TRUNCATE TABLE … PARTITION
truncate table {p} partition (day = '2024-01-01')
--@ flink: no

--# Catalogs | CREATE and DROP DATABASE
create database {c}extra;
drop database {c}extra
--@ flink: yes

--# Catalogs | CREATE DATABASE with a comment and properties
create database if not exists {c}extra_2 comment 'for tests' with dbproperties ('a' = 'b')
--@ flink: no

--# Catalogs | DROP DATABASE … CASCADE
create database {c}extra_3;
create table {c}extra_3.t (id int) {like};
drop database {c}extra_3 cascade
--@ flink: no

--# Catalogs | DESCRIBE DATABASE
describe database {c}{db}
--@ flink: no

--# Catalogs | ALTER DATABASE … SET DBPROPERTIES
alter database {c}{db} set dbproperties ('a' = 'b')
--@ flink: no

--# Catalogs | SHOW DATABASES
show databases
--@ flink: yes

--# Catalogs | SHOW TABLES IN
show tables in {c}{db}
--@ flink: yes

--# Catalogs | SHOW TABLES … LIKE
show tables in {c}{db} like 's*'
--@ flink: no

--# Catalogs | SHOW TABLE EXTENDED
show table extended in {c}{db} like '{plainname}'
--@ flink: no

--# Catalogs | SHOW CATALOGS
show catalogs
--@ flink: Flink's own

--# Catalogs | USE
use {c}{db}
--@ flink: yes

--# Inspect | DESCRIBE EXTENDED
describe extended {t}
--@ flink: yes

--# Inspect | DESCRIBE of a column
describe {t} name
--@ flink: no

--# Inspect | DESCRIBE DETAIL
describe detail {t}
--@ flink: no

--# Inspect | SHOW CREATE TABLE
show create table {t}
--@ flink: yes

--# Inspect | SHOW COLUMNS
show columns in {t}
--@ flink: no

--# Inspect | SHOW PARTITIONS
show partitions {p}
--@ flink: no

--# Inspect | SHOW TBLPROPERTIES
show tblproperties {t}
--@ flink: no

--# Inspect | SHOW TAGS
show tags {t}
--@ flink: no

--# Inspect | history of the table
describe history {t}
--@ iceberg
select * from {t}.history
--@ paimon
select * from {tick}$snapshots`
--@ flink: no

--# Inspect | snapshots as a table
select snapshot_id, commit_time from {t}$snapshots
--@ delta: none
--@ iceberg
select snapshot_id, committed_at from {t}.snapshots
--@ paimon
select snapshot_id, commit_time from {tick}$snapshots`
--@ flink: no

--# Inspect | partitions as a table
select * from {p}$partitions
--@ delta: none
--@ iceberg
select * from {p}.partitions
--@ paimon
select * from {tickp}$partitions`
--@ flink: no

--# Inspect | tags and branches as tables
select * from {t}$tags;
select * from {t}$branches
--@ delta: none
--@ iceberg
select * from {t}.refs
--@ paimon
select * from {tick}$tags`;
select * from {tick}$branches`
--@ flink: no

--# Inspect | the file that a row is in
select input_file_name(), id from {t}
--@ delta
select _metadata.file_path, id from {t}
--@ iceberg
select _file, id from {t}
--@ paimon
select __paimon_file_path, id from {rows}
--@ flink: no

--# Inspect | EXPLAIN
explain select * from {t} where id = 1
--@ flink: Flink's own

--# Inspect | ANALYZE TABLE
analyze table {t} compute statistics
--@ flink: no

--# Inspect | ANALYZE TABLE … FOR COLUMNS
analyze table {t} compute statistics for columns id, name
--@ flink: no

--# Inspect | REFRESH TABLE
refresh table {t}
--@ flink: no

--# Inspect | CACHE TABLE and UNCACHE TABLE
cache table {t};
uncache table {t}
--@ flink: no

--# Inspect | CACHE TABLE … AS SELECT
cache table cached_{plainname} as select * from {t};
uncache table cached_{plainname}
--@ flink: no

--# Change | ADD COLUMN
alter table {t} add column n int
--@ flink: no

--# Change | ADD COLUMN FIRST
alter table {t} add column n int first
--@ flink: no

--# Change | ADD COLUMNS, several with comments
alter table {t} add columns (n int comment 'a number', m map<string, int>)
--@ flink: no

--# Change | ADD COLUMN inside a struct
alter table {nested} add column info.c int;
select info.c from {nested}
--@ flink: no

--# Change | ADD COLUMN … DEFAULT
alter table {t} add column n int default 7
--@ flink: no

--# Change | ALTER COLUMN … SET DEFAULT
alter table {t} alter column name set default 'none';
insert into {t} (id, day) values (3, date'2024-01-03');
select assert_true(name = 'none') from {t} where id = 3
--@ delta
alter table {t} set tblproperties ('delta.feature.allowColumnDefaults' = 'supported');
alter table {t} alter column name set default 'none';
insert into {t} (id, day) values (3, date'2024-01-03');
select assert_true(name = 'none') from {t} where id = 3
--@ flink: no

--# Change | ALTER COLUMN … AFTER
alter table {t} alter column name after day
--@ flink: no

--# Change | ALTER COLUMN … DROP NOT NULL
create table {new} (id int, n int not null) {like};
alter table {new} alter column n drop not null
--@ flink: no

--# Change | ALTER COLUMN … SET NOT NULL
alter table {t} alter column name set not null
--@ flink: no

--# Change | REPLACE COLUMNS
alter table {rows} replace columns (id int, title string)
--@ delta
alter table {rows} set tblproperties ('delta.columnMapping.mode' = 'name');
alter table {rows} replace columns (id int, title string)
--@ flink: no

--# Change | RENAME COLUMN
alter table {t} rename column name to title
--@ delta
alter table {t} set tblproperties ('delta.columnMapping.mode' = 'name');
alter table {t} rename column name to title
--@ flink: no

--# Change | DROP COLUMN
alter table {t} drop column name
--@ delta
alter table {t} set tblproperties ('delta.columnMapping.mode' = 'name');
alter table {t} drop column name
--@ flink: no

--# Change | wider type
alter table {t} alter column id type bigint
--@ lakelog, paimon
alter table {t} add column n int;
alter table {t} alter column n type bigint
--@ delta
alter table {t} set tblproperties ('delta.enableTypeWidening' = 'true');
alter table {t} alter column id type bigint
--@ flink: no

--# Change | column comment
alter table {t} alter column name comment 'a name'
--@ flink: no

--# Change | SET and UNSET TBLPROPERTIES
alter table {t} set tblproperties ('snapshot.time-retained' = '2 h');
alter table {t} unset tblproperties ('snapshot.time-retained')
--@ delta, iceberg
alter table {t} set tblproperties ('my.own' = '2');
alter table {t} unset tblproperties ('my.own')
--@ flink: no

--# Change | COMMENT ON TABLE
comment on table {t} is 'of the tests'
--@ flink: no

--# Change | DROP CONSTRAINT
alter table {t} drop constraint if exists positive
--@ flink: no

--# Change | CLUSTER BY of a table
alter table {rows} cluster by (id)
--@ flink: no

--# Change | ADD PARTITION FIELD
alter table {rows} add partition field day
--@ flink: no

--# Change | WRITE ORDERED BY
alter table {t} write ordered by id
--@ flink: no

--# Change | SET IDENTIFIER FIELDS
create table {new} (id int not null, name string) {like};
alter table {new} set identifier fields id
--@ flink: no

--# Change | ADD PARTITION
alter table {p} add if not exists partition (day = '2024-01-09')
--@ flink: no

--# Change | MSCK REPAIR TABLE
msck repair table {p}
--@ flink: no

--# Change | RENAME TABLE
alter table {t} rename to {new}
--@ paimon
alter table {t} rename to {renamed}
--@ flink: no

--# Change | DROP PARTITION
alter table {p} drop partition (day = '2024-01-01')
--@ flink: no

--# Change | CREATE TAG
alter table {t} create tag good as of version {v1} retain 30 days;
select * from {t} version as of 'good'
--@ flink: no

--# Change | CREATE OR REPLACE TAG
alter table {t} create tag good as of version {v1};
alter table {t} create or replace tag good as of version {v2};
alter table {t} replace tag good as of version {v1}
--@ flink: no

--# Change | RENAME TAG
alter table {t} create tag good;
alter table {t} rename tag good to better
--@ flink: no

--# Change | DROP TAG
alter table {t} create tag good;
alter table {t} drop tag if exists good
--@ paimon
alter table {t} create tag good;
alter table {t} delete tag if exists good
--@ flink: no

--# Change | CREATE and DROP BRANCH
alter table {t} create branch if not exists b1 as of version {v1};
alter table {t} drop branch if exists b1
--@ flink: no

--# Write | INSERT INTO VALUES
insert into {t} values (3, 'c', date'2024-01-03')
--@ flink: yes

--# Write | INSERT INTO with columns
insert into {t} (name, id, day) select 'c', 3, date'2024-01-03'
--@ flink: yes

--# Write | INSERT … VALUES with DEFAULT
insert into {t} values (3, default, date'2024-01-03')
--@ flink: no

--# Write | INSERT … TABLE
insert into {rows} table {t}
--@ flink: no

--# Write | WITH … INSERT
with a as (select 3 as id) insert into {t} select id, 'c', date'2024-01-03' from a
--@ flink: no

--# Write | INSERT INTO … PARTITION
insert into {p} partition (day = '2024-01-09') values (9, 'z')
--@ flink: Flink's own

--# Write | FROM … INSERT … INSERT
from {t} insert into {rows} select * insert into {rows} select *
--@ flink: no

--# Write | INSERT WITH SCHEMA EVOLUTION
insert with schema evolution into {t} by name select 4 as id, 'd' as name, date'2024-01-04' as day, 5 as more
--@ flink: no

--# Write | INSERT … BY NAME
insert into {t} by name select 'c' as name, 3 as id, date'2024-01-03' as day
--@ flink: no

--# Write | INSERT OVERWRITE
insert overwrite {t} values (9, 'z', date'2024-01-09')
--@ flink: tables without a key

--# Write | INSERT OVERWRITE PARTITION
insert overwrite {p} partition (day = '2024-01-01') values (9, 'z')
--@ flink: tables without a key

--# Write | INSERT OVERWRITE … BY NAME
insert overwrite {t} by name select 9 as id, date'2024-01-09' as day, 'z' as name
--@ flink: no

--# Write | INSERT … REPLACE WHERE
insert into {t} replace where id = 1 values (1, 'z', date'2024-01-01')
--@ flink: no

--# Write | INSERT … REPLACE WHERE of a table without a key
insert into {rows} replace where id = 1 values (1, 'z', date'2024-01-01')
--@ flink: no

--# Write | INSERT … REPLACE WHERE of a partition
insert into {p} replace where day = date'2024-01-01' values (1, 'z', date'2024-01-01')
--@ flink: no

--# Write | UPDATE
update {t} set name = upper(name) where id = 1
--@ flink: no

--# Write | UPDATE with an alias and a subquery
update {t} as x set x.name = (select max(name) from {rows}) where x.id in (select id from {rows})
--@ flink: no

--# Write | UPDATE … SET column = DEFAULT
update {t} set name = default where id = 1
--@ flink: no

--# Write | UPDATE of a part of a column
update {nested} set info.a = 2 where id = 1
--@ flink: no

--# Write | UPDATE of a table without a key
update {rows} set name = upper(name) where id = 1
--@ flink: no

--# Write | DELETE
delete from {t} where id in (select max(id) from {t})
--@ flink: no

--# Write | DELETE of a partition
delete from {p} where day = date'2024-01-01'
--@ flink: no

--# Write | DELETE … EXISTS
delete from {t} where exists (select 1 from {rows} r where r.id = {plainname}.id and r.name = 'a')
--@ flink: no

--# Write | DELETE from a table without a key
delete from {rows} where id = 1
--@ flink: no

--# Write | MERGE, all clauses
merge into {t} t using (select 1 as id, 'x' as name, date'2024-01-01' as day union all select 5, 'y', date'2024-01-05')
s on t.id = s.id
when matched and s.name is null then delete
when matched then update set name = s.name
when not matched then insert (id, name, day) values (s.id, s.name, s.day)
when not matched by source then delete
--@ flink: no

--# Write | MERGE with INSERT * and UPDATE *
merge into {t} t using (select 1 as id, 'x' as name, date'2024-01-01' as day) s on t.id = s.id
when matched then update set * when not matched then insert *
--@ flink: no

--# Write | MERGE WITH SCHEMA EVOLUTION
merge with schema evolution into {t} t using (select 1 as id, 'x' as name, date'2024-01-01' as day, 5 as more) s
on t.id = s.id when matched then update set * when not matched then insert *
--@ flink: no

--# Write | MERGE from an older version of a table
merge into {rows} r using (select * from {t} version as of {v1}) as s on r.id = s.id
when matched then update set name = 'old' when not matched then insert *
--@ flink: no

--# Write | MERGE with DEFAULT
merge into {t} t using {rows} r on t.id = r.id when matched then update set name = default
when not matched then insert (id, name, day) values (r.id, default, r.day)
--@ flink: no

--# Write | MERGE into a table without a key
merge into {rows} t using (select 1 as id, 'x' as name, date'2024-01-01' as day union all select 5, 'y', date'2024-01-05')
s on t.id = s.id
when matched then update set name = s.name
when not matched then insert (id, name, day) values (s.id, s.name, s.day)
--@ flink: no

--# Write | a branch
alter table {t} create branch b1;
insert into {t}$branch_b1 values (3, 'c', date'2024-01-03')
--@ delta: none
--@ iceberg
alter table {t} create branch b1;
insert into {t}.branch_b1 values (3, 'c', date'2024-01-03')
--@ paimon
call {c}sys.create_branch(table => '{plain}', branch => 'b1');
insert into {tick}$branch_b1` values (3, 'c', date'2024-01-03')
--@ flink: no

--# Write | a stream of changes with their kinds
insert into {t} select 1 as id, 'a' as name, date'2024-01-01' as day, '-D' as _row_kind
--@ delta, iceberg, paimon: none
--@ flink: yes

--# Read | VERSION AS OF
select * from {t} version as of {v1}
--@ flink: by a hint, tables without a key

--# Read | TIMESTAMP AS OF
select * from {t} timestamp as of '{later}'
--@ flink: by a hint, tables without a key

--# Read | TIMESTAMP AS OF an expression
select * from {t} timestamp as of current_timestamp()
--@ flink: no

--# Read | table@v1
select * from {t}@v1
--@ flink: no

--# Read | TABLESAMPLE, PIVOT, windows, set operations
select * from (select id, name, row_number() over (order by id) as n from {t} tablesample (100 percent))
pivot (max(n) for name in ('a', 'b')) union all select 1, 2, 3
--@ flink: Flink's own

--# Read | TABLE t
table {t}
--@ flink: no

--# Read | pipes
from {t} |> where id = 1 |> select name
--@ flink: no

--# Read | changes between versions
select * from {t} /*+ OPTIONS('incremental-between' = '{v1},{v2}') */
--@ delta
select * from table_changes('{t}', 2, 2)
--@ iceberg
call {c}system.create_changelog_view(table => '{t}', changelog_view => 'changes');
select * from changes
--@ paimon
use paimon;
select * from paimon_incremental_query('{plain}', '{v1}', '{v2}')
--@ flink: by a hint, tables without a key

--# Read | a tag
call {c}sys.create_tag(table => '{plain}', tag => 'good', snapshot => {v1});
select * from {t} version as of 'good'
--@ delta: none
--@ iceberg
alter table {t} create tag good;
select * from {t} version as of 'good'
--@ flink: no

--# Read | a branch is written and read
call {c}sys.create_branch(table => '{plain}', branch => 'b1');
select * from {t}$branch_b1
--@ delta: none
--@ iceberg
alter table {t} create branch b1;
select * from {t}.branch_b1
--@ paimon
call {c}sys.create_branch(table => '{plain}', branch => 'b1');
select * from {tick}$branch_b1`
--@ flink: no

--# Read | files of the table
select * from {t}$files
--@ delta: none
--@ iceberg
select * from {t}.files
--@ paimon
select * from {tick}$files`
--@ flink: no

--# Read | view and CTE
create temporary view view_{plainname} as select * from {t};
with a as (select * from view_{plainname}) select count(*) from a join {t} b on a.id = b.id
--@ flink: Flink's own

--# Read | changes between versions as a function
select * from table_changes('{plain}', 1, 2)
--@ iceberg: none
--@ paimon
use paimon;
select * from paimon_incremental_query('{plain}', '{v1}', '{v2}')
--@ flink: no

--# Stream | changes from the log, milliseconds to seconds old
select * from {logged} /*+ OPTIONS('read.mode' = 'log') */
--@ delta: none
--@ iceberg: none
--@ paimon: none
--@ flink: yes

--# Stream | files and the log's end in one batch query
select * from {logged} /*+ OPTIONS('read.mode' = 'union') */
--@ delta: none
--@ iceberg: none
--@ paimon: none
--@ flink: no

--# Maintain | compaction
call {c}sys.compact(table => '{plain}')
--@ delta
optimize {t}
--@ iceberg
call {c}system.rewrite_data_files(table => '{plain}')
--@ flink: by Amoro's optimizer

--# Maintain | OPTIMIZE
optimize {t}
--@ flink: no

--# Maintain | OPTIMIZE … WHERE
optimize {p} where day = '2024-01-01'
--@ flink: no

--# Maintain | rows laid out by columns
optimize {rows} zorder by (id, name)
--@ iceberg
call {c}system.rewrite_data_files(table => '{db}.{plainrows}', strategy => 'sort', sort_order => 'zorder(id, name)')
--@ paimon
call {c}sys.compact(table => '{db}.{plainrows}', order_strategy => 'zorder', order_by => 'id,name')
--@ flink: no

--# Maintain | VACUUM
vacuum {t}
--@ flink: no

--# Maintain | VACUUM … RETAIN … DRY RUN
vacuum {t} retain 200 hours dry run
--@ flink: no

--# Maintain | expire snapshots
call {c}sys.expire_snapshots(table => '{plain}', retain_max => 1)
--@ delta: none
--@ iceberg
call {c}system.expire_snapshots(table => '{plain}', retain_last => 1)
--@ flink: by Amoro's optimizer

--# Maintain | expire partitions
call {c}sys.expire_partitions(table => '{db}.{plainparts}', expiration_time => '1 d')
--@ paimon
call {c}sys.expire_partitions(table => '{db}.{plainparts}', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd')
--@ delta, iceberg: none
--@ flink: by Amoro's optimizer

--# Maintain | tags by procedure
call {c}sys.create_tag(table => '{plain}', tag => 'good', snapshot => {v1});
call {c}sys.rename_tag(table => '{plain}', tag => 'good', target_tag => 'better');
call {c}sys.delete_tag(table => '{plain}', tag => 'better')
--@ paimon
call {c}sys.create_tag(table => '{plain}', tag => 'good', snapshot => {v1});
call {c}sys.delete_tag(table => '{plain}', tag => 'good')
--@ delta, iceberg: none
--@ flink: no

--# Maintain | main becomes what a branch is
call {c}sys.create_branch(table => '{plain}', branch => 'b1', tag => null);
insert into {t}$branch_b1 values (3, 'c', date'2024-01-03');
call {c}sys.fast_forward(table => '{plain}', branch => 'b1')
--@ delta: none
--@ iceberg
alter table {t} create branch b1;
insert into {t}.branch_b1 values (3, 'c', date'2024-01-03');
call {c}system.fast_forward('{plain}', 'main', 'b1')
--@ paimon
call {c}sys.create_branch(table => '{plain}', branch => 'b1');
insert into {tick}$branch_b1` values (3, 'c', date'2024-01-03');
call {c}sys.fast_forward(table => '{plain}', branch => 'b1')
--@ flink: no

--# Maintain | manifests written again
call {c}sys.compact_manifest(table => '{plain}')
--@ delta: none
--@ iceberg
call {c}system.rewrite_manifests('{plain}')
--@ flink: no

--# Maintain | deleted rows purged from the files
reorg table {t} apply (purge)
--@ iceberg
call {c}system.rewrite_position_delete_files('{plain}')
--@ paimon
call {c}sys.compact(table => '{plain}')
--@ lakelog
call {c}sys.compact(table => '{plain}')
--@ flink: no

--# Maintain | orphan files
call {c}sys.remove_orphan_files(table => '{plain}')
--@ delta
vacuum {t} dry run
--@ iceberg
call {c}system.remove_orphan_files(table => '{plain}')
--@ flink: by Amoro's optimizer

--# Maintain | back to an older version
call {c}sys.rollback_to(table => '{plain}', snapshot => {v1})
--@ delta
restore table {t} to version as of {v1}
--@ iceberg
call {c}system.rollback_to_snapshot('{plain}', {v1})
--@ paimon
call {c}sys.rollback(table => '{plain}', version => '{v1}')
--@ flink: no

--# Maintain | back to a tag
call {c}sys.create_tag(table => '{plain}', tag => 'good', snapshot => {v1});
call {c}sys.rollback_to(table => '{plain}', tag => 'good')
--@ delta: none
--@ iceberg
alter table {t} create tag good as of version {v1};
call {c}system.set_current_snapshot(table => '{plain}', ref => 'good')
--@ paimon
call {c}sys.create_tag(table => '{plain}', tag => 'good', snapshot => {v1});
call {c}sys.rollback(table => '{plain}', version => 'good')
--@ flink: no

--# Maintain | the changes of another snapshot once more
call {c}sys.cherrypick_snapshot('{plain}', {v2})
--@ lakelog, paimon, delta: none
--@ iceberg
call {c}system.rollback_to_snapshot('{plain}', {v1});
call {c}system.cherrypick_snapshot('{plain}', {v2})
--@ flink: no

--# Maintain | a directory of Parquet files taken over
convert to delta parquet.`{place}/{plainname}_files`
--@ lakelog, paimon: none
--@ delta
insert overwrite directory '{place}/{plainname}_files' using parquet select * from {rows};
convert to delta parquet.`{place}/{plainname}_files`
--@ iceberg
insert overwrite directory '{place}/{plainname}_files' using parquet select * from {rows};
call {c}system.add_files(table => '{db}.{plainrows}', source_table => '`parquet`.`{place}/{plainname}_files`')
--@ flink: no

--# Maintain | RESTORE
restore table {t} to version as of {v1}
--@ flink: no

--# Maintain | RESTORE … TIMESTAMP AS OF
restore table {t} to timestamp as of '{later}'
--@ flink: no

