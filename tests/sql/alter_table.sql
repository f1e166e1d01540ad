-- ALTER TABLE in Spark's words and in Flink's.

--# add a column
alter table db.t add column x int
--> alter table db.t
-->   AddColumn path=x type=int comment=None position=None

--# spark
alter table db.u add columns (a int comment 'A' after id, `b c` timestamp first, c struct<x:int> comment 'it''s')
--> alter table db.u
-->   AddColumn path=a type=int comment=A position=AFTER id
-->   AddColumn path=b c type=timestamp comment=None position=FIRST
-->   AddColumn path=c type=struct<x:int> comment=it's position=None

--# flink, where a timestamp has no zone
alter table db.u add (a int comment 'A' after id, b timestamp first);
alter table db.u add c array<int>
--> alter table db.u
-->   AddColumn path=a type=int comment=A position=AFTER id
-->   AddColumn path=b type=timestamp_ntz comment=None position=FIRST
--> alter table db.u
-->   AddColumn path=c type=array<int> comment=None position=None

--# nested
alter table db.t add column info.more string after a
--> alter table db.t
-->   AddColumn path=info.more type=string comment=None position=AFTER a

--# drop
alter table db.t drop column name;
alter table db.t drop columns (ts, tags);
alter table db.u drop amount, `order`
--> alter table db.t
-->   DropColumn path=name if_exists=False
--> alter table db.t
-->   DropColumn path=ts if_exists=False
-->   DropColumn path=tags if_exists=False
--> alter table db.u
-->   DropColumn path=amount if_exists=False
-->   DropColumn path=order if_exists=False

--# drop if exists
alter table db.t drop column if exists nothing
--> alter table db.t
-->   DropColumn path=nothing if_exists=True

--# rename
alter table db.t rename column name to title;
alter table db.t rename title to name;
alter table db.t rename column info.a to aa
--> alter table db.t
-->   RenameColumn path=name new_name=title
--> alter table db.t
-->   RenameColumn path=title new_name=name
--> alter table db.t
-->   RenameColumn path=info.a new_name=aa

--# alter column
alter table db.u alter column id type bigint, name comment 'who', amount first, uid after name;
alter table db.u alter column id drop not null;
alter table db.u alter name set default 'none'
--> alter table db.u
-->   ChangeType path=id type=bigint keep_nullable=True
-->   ChangeComment path=name comment=who
-->   ChangePosition path=amount position=FIRST
-->   ChangePosition path=uid position=AFTER name
--> alter table db.u
-->   ChangeNullability path=id nullable=True
--> alter table db.u
-->   ChangeDefault path=name value=none

--# change
alter table db.u change column id id bigint comment 'n' after name;
alter table db.u change id number bigint;
alter table db.u change column name comment 'x'
--> alter table db.u
-->   ChangeType path=id type=bigint keep_nullable=True
-->   ChangeComment path=id comment=n
-->   ChangePosition path=id position=AFTER name
--> alter table db.u
-->   RenameColumn path=id new_name=number
-->   ChangeType path=number type=bigint keep_nullable=True
--> alter table db.u
-->   ChangeComment path=name comment=x

--# modify
alter table db.u modify id bigint comment 'n' after name;
alter table db.u modify (id bigint, name string first)
--> alter table db.u
-->   ChangeType path=id type=bigint keep_nullable=False
-->   ChangeComment path=id comment=n
-->   ChangePosition path=id position=AFTER name
--> alter table db.u
-->   ChangeType path=id type=bigint keep_nullable=False
-->   ChangeType path=name type=string keep_nullable=False
-->   ChangePosition path=name position=FIRST

--# options
alter table db.t set tblproperties ('snapshot.num-retained.min' = '3', 'comment' = 'a table');
alter table db.t unset tblproperties if exists ('snapshot.num-retained.min', 'comment')
--> alter table db.t
-->   SetOption key=snapshot.num-retained.min value=3
-->   ChangeTableComment comment=a table
--> alter table db.t
-->   RemoveOption key=snapshot.num-retained.min
-->   ChangeTableComment comment=None

--# options of flink
alter table db.t set ('snapshot.num-retained.min' = '3');
alter table db.t reset ('snapshot.num-retained.min')
--> alter table db.t
-->   SetOption key=snapshot.num-retained.min value=3
--> alter table db.t
-->   RemoveOption key=snapshot.num-retained.min

--# rename table
alter table db.t rename to s;
alter table db.t rename to other.s;
alter table lakelog.db.t rename to lakelog.db.s
--> uncache db.t
--> rename table db.t to db.s
--> uncache db.t
--> rename table db.t to other.s
--> uncache db.t
--> rename table db.t to db.s

--# a table of spark
alter table spark_t add column x int;
alter table spark_t set location 'elsewhere';
alter table spark_t add partition (day = 1)
--> spark:
-->   alter table spark_t add column x int
--> spark:
-->   alter table spark_t set location 'elsewhere'
--> spark:
-->   alter table spark_t add partition (day = 1)

--# a clause of another system on a table of spark
alter table spark_t add partition field months(day)
--> spark:
-->   alter table spark_t add partition field months(day)

--# cluster by (id)
alter table db.t cluster by (id)
--> UnsupportedStatement:
-->   line 1, column 18: CLUSTER BY is not supported: rows without a key are sorted by OPTIMIZE … ZORDER BY or CALL sys.compact(order_strategy => …), others by key
-->   alter table db.t cluster by (id)
-->                    ^

--# write ordered by
alter table db.t write ordered by id
--> UnsupportedStatement:
-->   line 1, column 18: WRITE is not supported: rows without a key are sorted by OPTIMIZE … ZORDER BY or CALL sys.compact(order_strategy => …), others by key
-->   alter table db.t write ordered by id
-->                    ^

--# add partition field
alter table db.t add partition field day
--> UnsupportedStatement:
-->   line 1, column 18: ADD PARTITION FIELD is not supported: partition keys are columns, fixed when a table is created; create a new table and copy the rows
-->   alter table db.t add partition field day
-->                    ^

--# replace partition field
alter table db.t replace partition field day with month
--> UnsupportedStatement:
-->   line 1, column 18: REPLACE PARTITION FIELD is not supported: partition keys are columns, fixed when a table is created; create a new table and copy the rows
-->   alter table db.t replace partition field day with month
-->                    ^

--# set identifier fields
alter table db.t set identifier fields id
--> UnsupportedStatement:
-->   line 1, column 18: SET IDENTIFIER FIELDS is not supported: the primary key is fixed when a table is created; create a new table and copy the rows
-->   alter table db.t set identifier fields id
-->                    ^

--# set location 'elsewhere'
alter table db.t set location 'elsewhere'
--> UnsupportedStatement:
-->   line 1, column 18: SET LOCATION is not supported: a lakelog table is in the directory of its database in the warehouse
-->   alter table db.t set location 'elsewhere'
-->                    ^

--# if exists
alter table if exists db.nothing add column x int

--# what was altered is shown
create table db.a (id int default 5 comment 'key', name string default 'it''s', primary key (id)) using lakelog;
alter table db.a alter column name set default 'none';
alter table db.a add columns (day date comment 'of birth' after id);
alter table db.a alter column day set default date'2024-01-31';
show create table db.a
--> create table db.a
-->   id int not null -- key
-->   name string
-->   primary key id
--> alter table db.a
-->   ChangeDefault path=name value=none
--> alter table db.a
-->   AddColumn path=day type=date comment=of birth position=AFTER id
--> alter table db.a
-->   ChangeDefault path=day value=2024-01-31
--> answer createtab_stmt:
-->   CREATE TABLE db.a (
-->     id int DEFAULT '5' COMMENT 'key',
-->     day date DEFAULT '2024-01-31' COMMENT 'of birth',
-->     name string DEFAULT 'none',
-->     PRIMARY KEY (id))
-->   USING lakelog

--# a column called tag
alter table db.t add column tag int;
alter table db.t rename tag to tag_2;
alter table db.t drop tag_2
--> alter table db.t
-->   AddColumn path=tag type=int comment=None position=None
--> alter table db.t
-->   RenameColumn path=tag new_name=tag_2
--> alter table db.t
-->   DropColumn path=tag_2 if_exists=False

--# COMMENT ON TABLE
comment on table db.t is 'it''s mine';
comment on table db.t is null
--> alter table db.t
-->   ChangeTableComment comment=it's mine
--> alter table db.t
-->   ChangeTableComment comment=None
