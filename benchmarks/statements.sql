-- Statements that people write on tables of a lake. `--# group | title` begins one; `--@ a, b` the way in which these
-- systems write it, `--@ a: none` that one has no such statement, `--@ flink: …` what Arctic's Flink connector is
-- documented to do. {t} is a table with the rows (1, 'a', 2024-01-01), (2, 'b', 2024-01-02), {p} the same partitioned
-- by its day, {v1} and {v2} are its first two versions, {new} is a name without a table, {c} {db} the catalog and the
-- database, {like} the clause that makes a table the system's. The last statement is what counts.

--# Tables | CREATE TABLE
create table {new} (id int, name string) {like}
--@ flink: yes

--# Tables | CREATE TABLE IF NOT EXISTS, comments
create table if not exists {t} (id int comment 'of the row') {like} comment 'a table'
--@ flink: yes

--# Tables | PRIMARY KEY
create table {new} (id int, name string, primary key (id)) {like}
--@ paimon
create table {new} (id int, name string) using paimon tblproperties ('primary-key' = 'id')
--@ flink: yes

--# Tables | PARTITIONED BY
create table {new} (id int, day date) {like} partitioned by (day)
--@ flink: yes

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
--@ flink: in the job only

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

--# Tables | DROP TABLE
drop table {t}
--@ flink: yes

--# Tables | TRUNCATE TABLE
truncate table {t}
--@ flink: no

--# Catalogs | CREATE and DROP DATABASE
create database {c}extra;
drop database {c}extra
--@ flink: yes

--# Catalogs | SHOW DATABASES
show databases
--@ flink: yes

--# Catalogs | SHOW TABLES IN
show tables in {c}{db}
--@ flink: yes

--# Catalogs | USE
use {c}{db}
--@ flink: yes

--# Look | DESCRIBE EXTENDED
describe extended {t}
--@ flink: yes

--# Look | SHOW CREATE TABLE
show create table {t}
--@ flink: yes

--# Look | SHOW COLUMNS
show columns in {t}
--@ flink: no

--# Look | SHOW PARTITIONS
show partitions {p}
--@ flink: no

--# Look | SHOW TBLPROPERTIES
show tblproperties {t}
--@ flink: no

--# Look | history of the table
describe history {t}
--@ iceberg
select * from {t}.history
--@ paimon
select * from `{t}$snapshots`
--@ flink: no

--# Look | EXPLAIN
explain select * from {t} where id = 1
--@ flink: yes

--# Look | ANALYZE TABLE
analyze table {t} compute statistics
--@ flink: no

--# Change | ADD COLUMN
alter table {t} add column n int
--@ flink: no

--# Change | ADD COLUMN FIRST
alter table {t} add column n int first
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

--# Change | RENAME TABLE
alter table {t} rename to {new}
--@ paimon
alter table {t} rename to {renamed}
--@ flink: no

--# Change | DROP PARTITION
alter table {p} drop partition (day = '2024-01-01')
--@ flink: no

--# Write | INSERT INTO VALUES
insert into {t} values (3, 'c', date'2024-01-03')
--@ flink: yes

--# Write | INSERT INTO with columns
insert into {t} (name, id, day) select 'c', 3, date'2024-01-03'
--@ flink: yes

--# Write | INSERT … BY NAME
insert into {t} by name select 'c' as name, 3 as id, date'2024-01-03' as day
--@ flink: no

--# Write | INSERT OVERWRITE
insert overwrite {t} values (9, 'z', date'2024-01-09')
--@ flink: tables without a key

--# Write | INSERT OVERWRITE PARTITION
insert overwrite {p} partition (day = '2024-01-01') values (9, 'z')
--@ flink: tables without a key

--# Write | INSERT … REPLACE WHERE
insert into {t} replace where id = 1 values (1, 'z', date'2024-01-01')
--@ flink: no

--# Write | UPDATE
update {t} set name = upper(name) where id = 1
--@ flink: no

--# Write | DELETE
delete from {t} where id in (select max(id) from {t})
--@ flink: no

--# Write | MERGE, all clauses
merge into {t} t using (select 1 as id, 'x' as name union all select 5, 'y') s on t.id = s.id
when matched and s.name is null then delete
when matched then update set name = s.name
when not matched then insert (id, name) values (s.id, s.name)
when not matched by source then delete
--@ flink: no

--# Write | MERGE with INSERT * and UPDATE *
merge into {t} t using (select 1 as id, 'x' as name, date'2024-01-01' as day) s on t.id = s.id
when matched then update set * when not matched then insert *
--@ flink: no

--# Read | VERSION AS OF
select * from {t} version as of {v1}
--@ flink: no

--# Read | TIMESTAMP AS OF
select * from {t} timestamp as of '{later}'
--@ flink: no

--# Read | changes between versions
select * from {t} /*+ OPTIONS('incremental-between' = '{v1},{v2}') */
--@ delta
select * from table_changes('{t}', 2, 2)
--@ iceberg
call {c}system.create_changelog_view(table => '{t}', changelog_view => 'changes');
select * from changes
--@ paimon
select * from paimon_incremental_query('{t}', '{v1}', '{v2}')
--@ flink: no

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
select * from `{t}$branch_b1`
--@ delta: none
--@ iceberg
alter table {t} create branch b1;
select * from {t}.branch_b1
--@ flink: no

--# Read | files of the table
select * from `{t}$files`
--@ delta: none
--@ iceberg
select * from {t}.files
--@ flink: no

--# Read | view and CTE
create temporary view view_{plainname} as select * from {t};
with a as (select * from view_{plainname}) select count(*) from a join {t} b on a.id = b.id
--@ flink: yes

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

--# Maintain | VACUUM
vacuum {t}
--@ flink: no

--# Maintain | expire snapshots
call {c}sys.expire_snapshots(table => '{plain}', retain_max => 1)
--@ delta: none
--@ iceberg
call {c}system.expire_snapshots(table => '{plain}', retain_last => 1)
--@ flink: by Amoro's optimizer

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

--# Maintain | RESTORE
restore table {t} to version as of {v1}
--@ flink: no
