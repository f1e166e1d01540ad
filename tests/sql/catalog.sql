-- Databases, USE, SHOW, DESCRIBE, DROP.

--# databases
create database a;
create database if not exists arctic.b comment 'kept by nobody';
create schema c;
drop database a;
drop schema if exists b cascade;
drop database c restrict
--> create database a
--> create database b if missing
--> create database c
--> drop database a
--> drop database b if exists cascade
--> drop database c

--# use
use db;
show tables;
use catalog amoro;
show tables;
use arctic.other;
show tables;
use arctic;
show tables;
set catalog 'lakelog';
use database db;
use schema other
--> answer namespace, tableName:
-->   db | arctic
-->   db | t
-->   db | t$snapshots
-->   db | u
--> answer namespace, tableName:
-->   default | home
-->   default | shadow
--> answer namespace, tableName:
-->   other | p
-->   other | t
--> answer namespace, tableName:
-->   default | home
-->   default | shadow

--# use of what does not exist leaves the session as it is
use nowhere
--> NotFound:
-->   database 'nowhere' does not exist, did you mean 'other'? Known: db, default, other

--# use of an unknown catalog
use catalog hive
--> NotFound:
-->   catalog 'hive' does not exist. Known: lakelog, arctic, amoro, catalog

--# use of an unknown catalog with a database
use hive.db
--> NotFound:
-->   catalog 'hive' does not exist. Known: lakelog, arctic, amoro, catalog

--# show tables
show tables in db;
show tables from arctic.db like 'a*|u';
show tables in other 'x*'
--> answer namespace, tableName:
-->   db | arctic
-->   db | t
-->   db | t$snapshots
-->   db | u
--> answer namespace, tableName:
-->   db | arctic
-->   db | u
--> answer namespace, tableName:

--# show tables of an unknown database
show tables in nowhere
--> NotFound:
-->   database 'nowhere' does not exist

--# show databases and catalogs
show databases;
show schemas like 'd*';
show catalogs
--> answer namespace:
-->   db
-->   default
-->   other
--> answer namespace:
-->   db
-->   default
--> answer catalog:
-->   lakelog

--# show create table reads back
create table db.a (
  id int comment 'it''s', dt string not null, `a b` map<int, struct<x: timestamp_ntz>>, t timestamp(3) not null,
  primary key (id, dt)
) using lakelog partitioned by (dt) comment 'c' tblproperties ('bucket' = '2', 'log-store.enabled' = 'true');
show create table db.a
--> create table db.a
-->   id int not null -- it's
-->   dt string not null
-->   a b map<int,struct<x:timestamp_ntz>>
-->   t timestamp_ltz(3) not null
-->   primary key id, dt
-->   partitioned by dt
-->   comment c
-->   bucket = 2
-->   log-store.enabled = true
--> answer createtab_stmt:
-->   CREATE TABLE db.a (
-->     id int COMMENT 'it\'s',
-->     dt string,
-->     `a b` map<int,struct<x:timestamp_ntz>>,
-->     t timestamp_ltz(3) NOT NULL,
-->     PRIMARY KEY (id, dt))
-->   USING lakelog
-->   PARTITIONED BY (dt)
-->   COMMENT 'c'
-->   TBLPROPERTIES (
-->     'bucket' = '2',
-->     'log-store.enabled' = 'true')

--# describe
describe db.arctic;
desc table extended db.arctic;
describe formatted db.arctic
--> answer col_name, data_type, comment:
-->   id | int | -
-->   name | string | -
--> answer col_name, data_type, comment:
-->   id | int | -
-->   name | string | -
-->   # table |  | -
--> answer col_name, data_type, comment:
-->   id | int | -
-->   name | string | -
-->   # table |  | -

--# describe and show of Spark's relations
describe spark_t;
describe function upper;
describe query select 1;
show create table spark_t;
show functions;
show views
--> spark:
-->   describe spark_t
--> spark:
-->   describe function upper
--> spark:
-->   describe query select 1
--> spark:
-->   show create table spark_t
--> spark:
-->   show functions
--> spark:
-->   show views

--# describe of what nobody knows
describe db.arctik
--> NotFound:
-->   table or view 'db.arctik' does not exist in database 'db', did you mean 'arctic'?

--# show create table of what nobody knows
show create table db.arctik
--> NotFound:
-->   table or view 'db.arctik' does not exist in database 'db', did you mean 'arctic'?

--# drop table
drop table db.t;
drop table if exists db.t purge;
drop table if exists db.nothing;
drop table spark_t
--> uncache db.t
--> drop table db.t
--> uncache db.t
--> drop table db.t if exists purge
--> drop table db.nothing if exists
--> spark:
-->   drop table spark_t

--# drop of what nobody knows
drop table db.nothing
--> NotFound:
-->   table or view 'db.nothing' does not exist in database 'db'

--# drop with words behind it
drop table db.t cascade
--> UnsupportedStatement:
-->   line 1, column 17: expected the end of the statement, found 'cascade'
-->   drop table db.t cascade
-->                   ^

--# of another catalog
drop table hive.db.t
--> NotFound:
-->   catalog 'hive' does not exist. Known: lakelog, arctic, amoro, catalog

--# alter a database of spark
alter database sparks set location 'there';
alter schema a.b.c set dbproperties ('a' = 'b')
--> spark:
-->   alter database sparks set location 'there'
--> spark:
-->   alter schema a.b.c set dbproperties ('a' = 'b')

--# alter a database
alter database other set dbproperties ('a' = 'b')
--> UnsupportedStatement:
-->   line 1, column 1: a lakelog database has no properties: set them on the tables of 'other'
-->   alter database other set dbproperties ('a' = 'b')
-->   ^

--# alter a database of another catalog
alter schema arctic.other set properties ('a' = 'b')
--> UnsupportedStatement:
-->   line 1, column 1: a lakelog database has no properties: set them on the tables of 'arctic.other'
-->   alter schema arctic.other set properties ('a' = 'b')
-->   ^
