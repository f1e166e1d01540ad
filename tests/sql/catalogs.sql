-- Several catalogs in one session.

--# a catalog comes and goes
create catalog prod with ('warehouse' = 'second', 'catalog.type' = 'sql');
show catalogs;
create catalog if not exists PROD with ('warehouse' = 'other');
create catalog arctic comment 'kept by nobody' with ('type' = 'paimon', 'warehouse' = 'third');
show catalogs;
drop catalog prod;
drop catalog if exists prod;
show catalogs
--> create catalog prod warehouse=second catalog.type=sql
--> catalogs changed
--> create catalog arctic warehouse=third
--> catalogs changed
--> drop catalog prod
--> catalogs changed
--> answer catalog:
-->   lakelog
-->   prod
--> answer catalog:
-->   lakelog
-->   arctic
-->   prod
--> answer catalog:
-->   lakelog
-->   arctic

--# a name that is taken
create catalog prod with ('warehouse' = 'second');
create catalog Prod with ('warehouse' = 'third')
--> create catalog prod warehouse=second
--> catalogs changed
--> AlreadyExists:
-->   catalog 'Prod' exists: choose another name, or write IF NOT EXISTS

--# the first one's name is taken
create catalog lakelog with ('warehouse' = 'second')
--> AlreadyExists:
-->   catalog 'lakelog' exists: choose another name, or write IF NOT EXISTS

--# a name of Spark's
create catalog spark_catalog with ('warehouse' = 'second')
--> InvalidRequest:
-->   'spark_catalog' cannot be the name of a catalog: it must not be blank, contain '.' or '`', or be a name of Spark's own catalogs

--# a catalog of Spark's
create catalog ice with ('type' = 'iceberg', 'warehouse' = 'second')
--> InvalidOption:
-->   catalog 'ice' of type 'iceberg' is not a lakelog catalog: set Spark's 'spark.sql.catalog.ice'

--# options that are not understood print no secret
create catalog prod with ('catalog.uri' = 'postgresql://user:hush@host/db' 'warehouse' = 'second')
--> UnsupportedStatement:
-->   line 1, column 88: the options of catalog 'prod' are invalid from here: write CREATE CATALOG prod WITH ('warehouse' = '…', 'catalog.type' = '…', …)

--# no options
create catalog prod
--> UnsupportedStatement:
-->   line 1, column 20: the options of catalog 'prod' are invalid from here: write CREATE CATALOG prod WITH ('warehouse' = '…', 'catalog.type' = '…', …)

--# the first one stays
drop catalog lakelog
--> InvalidRequest:
-->   catalog 'lakelog' cannot be dropped: it is the default catalog of the session

--# the current one stays
create catalog prod with ('warehouse' = 'second');
use catalog prod;
drop catalog prod
--> create catalog prod warehouse=second
--> catalogs changed
--> InvalidRequest:
-->   catalog 'prod' is the current one: run USE CATALOG lakelog first

--# an unknown one is not dropped
create catalog prod with ('warehouse' = 'second');
drop catalog prid
--> create catalog prod warehouse=second
--> catalogs changed
--> NotFound:
-->   catalog 'prid' does not exist, did you mean 'prod'? Known: lakelog, prod, arctic, amoro, catalog

--# names of three parts
create catalog prod with ('warehouse' = 'second');
select a.id, b.price from db.t a join prod.db.t b on a.id = b.id;
select t.id, prod.db.t.name from prod.db.t where prod.db.t.price > 1 and db.t.id < 9;
insert into Prod.db.t select id, name, 1 from db.t;
describe prod.db.t;
create table prod.new.a (id int) using lakelog;
create table prod.db.b using lakelog as select id, name from lakelog.db.t;
update prod.db.t set price = 2 where id = 1;
merge into db.arctic using prod.db.t s on arctic.id = s.id when not matched then insert (id, name) values (s.id, s.name);
truncate table prod.db.t;
drop table prod.db.t
--> create catalog prod warehouse=second
--> catalogs changed
--> query:
-->   select a.id, b.price from v1 a join v2 b on a.id = b.id
-->   v1 = db.t [id]
-->   v2 = prod.db.t [id, price]
--> query:
-->   select t.id, t.name from v3 AS `t` where t.price > 1 and t.id < 9
-->   v3 = prod.db.t [id, name, price]
--> insert into prod.db.t:
-->   select id, name, 1 from v4 AS `t`
-->   v4 = db.t [id, name]
--> create database new in prod if missing
--> create table prod.new.a
-->   id int
--> columns of:
-->   select id, name from v5 AS `t`
-->   v5 = db.t [id, name]
--> create table prod.db.b
-->   id int
-->   name string
--> insert into prod.db.b:
-->   select id, name from v5 AS `t`
-->   v5 = db.t [id, name]
--> insert into prod.db.t:
-->   SELECT t.id AS id, t.name AS name, (CAST((2) AS int)) AS price, '+U' AS _row_kind FROM v7  AS t WHERE (id = 1)
-->   v7 = prod.db.t [id, name] read.mode=file
--> insert into db.arctic:
-->   SELECT if(_lakelog_row._row_kind IN ('-D', '-U'), _o0, _n0) AS id, if(_lakelog_row._row_kind IN ('-D', '-U'), _o1, _n1) AS name, _lakelog_row._row_kind AS _row_kind FROM (SELECT * FROM (SELECT CASE WHEN arctic._lakelog_target IS NOT NULL AND s._lakelog_source IS NOT NULL THEN 0 WHEN s._lakelog_source IS NOT NULL THEN CASE WHEN true THEN 1 ELSE 0 END ELSE 0 END AS _lakelog_action, arctic._lakelog_target IS NOT NULL AS _is, if(arctic._lakelog_target IS NOT NULL, 0, monotonically_increasing_id() + 1) AS _lakelog_number, arctic._lakelog_id AS _lakelog_id, arctic.id AS _o0, CASE _lakelog_action WHEN 1 THEN (CAST((s.id) AS int)) END AS _n0, arctic.name AS _o1, CASE _lakelog_action WHEN 1 THEN CAST((CAST((s.name) AS string)) AS string) END AS _n1 FROM (SELECT *, 1 AS _lakelog_target, monotonically_increasing_id() AS _lakelog_id FROM v10 AS `arctic` ) AS arctic RIGHT OUTER JOIN (SELECT *, 1 AS _lakelog_source FROM v11 s) AS s ON arctic.id = s.id) WHERE _lakelog_action > 0) LATERAL VIEW explode(CASE WHEN _lakelog_action IN (1) THEN array('+I') END) _lakelog_row AS _row_kind
-->   v10 = db.arctic [id, name] read.mode=file
-->   v11 = prod.db.t [id, name]
--> truncate prod.db.t {}
--> uncache prod.db.t
--> drop table prod.db.t
--> answer col_name, data_type, comment:
-->   id | int | -
-->   name | string | -
-->   price | int | -

--# the current catalog
create catalog prod with ('warehouse' = 'second');
use catalog prod;
show tables;
use db;
select price from t;
select id from lakelog.db.u;
select id from arctic.other.t;
drop table if exists lakelog.db.t;
use lakelog.other;
show tables;
use prod;
show tables;
set catalog 'lakelog';
show tables
--> create catalog prod warehouse=second
--> catalogs changed
--> query:
-->   select price from v1 AS `t`
-->   v1 = prod.db.t [price]
--> query:
-->   select id from v2 AS `u`
-->   v2 = db.u [id]
--> query:
-->   select id from v3 AS `t`
-->   v3 = other.t [id]
--> uncache db.t
--> drop table db.t if exists
--> answer namespace, tableName:
-->   default | only
--> answer namespace, tableName:
-->   other | p
-->   other | t
--> answer namespace, tableName:
-->   default | only
--> answer namespace, tableName:
-->   default | home
-->   default | shadow

--# a failed use leaves catalog and database
create catalog prod with ('warehouse' = 'second');
use prod.db;
use lakelog.nowhere
--> create catalog prod warehouse=second
--> catalogs changed
--> NotFound:
-->   database 'nowhere' does not exist, did you mean 'other'? Known: db, default, other

--# databases and tables of another catalog
create catalog prod with ('warehouse' = 'second');
show databases in prod;
show databases from lakelog like 'd*';
show tables in prod.db;
show tables in prod;
create database prod.x;
create database if not exists x;
drop database prod.x cascade;
drop database if exists lakelog.x
--> create catalog prod warehouse=second
--> catalogs changed
--> create database x in prod
--> create database x if missing
--> drop database x in prod cascade
--> drop database x if exists
--> answer namespace:
-->   db
-->   default
--> answer namespace:
-->   db
-->   default
--> answer namespace, tableName:
-->   db | t
--> answer namespace, tableName:
-->   default | only

--# databases of an unknown catalog
show databases in prod
--> NotFound:
-->   catalog 'prod' does not exist. Known: lakelog, arctic, amoro, catalog

--# create in an unknown catalog names those that there are
create catalog prod with ('warehouse' = 'second');
create database prud.x
--> create catalog prod warehouse=second
--> catalogs changed
--> NotFound:
-->   catalog 'prud' does not exist, did you mean 'prod'? Known: lakelog, prod, arctic, amoro, catalog

--# a table that another catalog has not
create catalog prod with ('warehouse' = 'second');
select * from prod.db.u
--> create catalog prod warehouse=second
--> catalogs changed
--> NotFound:
-->   table or view 'prod.db.u' does not exist in database 'db' of catalog 'prod'

--# a database that another catalog has not
create catalog prod with ('warehouse' = 'second');
drop table prod.other.t
--> create catalog prod warehouse=second
--> catalogs changed
--> NotFound:
-->   table 'prod.other.t' does not exist: there is no database 'other' of catalog 'prod'

--# a catalog that goes takes its names along
create catalog prod with ('warehouse' = 'second');
drop catalog prod;
drop table prod.db.t
--> create catalog prod warehouse=second
--> catalogs changed
--> drop catalog prod
--> catalogs changed
--> NotFound:
-->   catalog 'prod' does not exist. Known: lakelog, arctic, amoro, catalog

--# a table is renamed within its catalog
create catalog prod with ('warehouse' = 'second');
alter table prod.db.t rename to u;
alter table prod.db.t rename to x.u;
alter table prod.db.t rename to prod.x.u
--> create catalog prod warehouse=second
--> catalogs changed
--> uncache prod.db.t
--> rename table prod.db.t to prod.db.u
--> uncache prod.db.t
--> rename table prod.db.t to prod.x.u
--> uncache prod.db.t
--> rename table prod.db.t to prod.x.u

--# a column is not the same in two catalogs
create catalog prod with ('warehouse' = 'second');
select lakelog.db.t.id, p.price from db.t join prod.db.t p on lakelog.db.t.id = p.id
--> create catalog prod warehouse=second
--> catalogs changed
--> query:
-->   select t.id, p.price from v1 AS `t` join v2 p on t.id = p.id
-->   v1 = db.t [id]
-->   v2 = prod.db.t [id, price]
