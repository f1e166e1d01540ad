--# a row of a stream finds the newest row of a table
select o.uid, d.name from db.u as o join db.t for system_time as of proctime() as d on o.id = d.id where o.amount > 1

--# a left join with further conditions
select o.uid, d.name from db.u o left outer join db.t FOR SYSTEM_TIME AS OF current_timestamp() d on d.id = o.id and d.name = o.name and uid > 3 and ts is not null where 1 = 1

--# an inner join with further conditions
select uid, d.name from db.u o inner join db.t for system_time as of now() d on (d.id = o.id + 1 and (d.name > o.name or uid between 3 and 4)) order by 1

--# without an alias, and with a hint
select u.uid, t.name from db.u join db.t for system_time as of proctime() /*+ OPTIONS('lookup.async'='true') */ on db.t.id = db.u.id

--# a hint behind the alias
select d.name from db.u o join db.t for system_time as of proctime() as d /*+ OPTIONS('lookup.async'='true') */ on o.id = d.id

--# every column
select * from db.u o join db.t for system_time as of proctime() d on o.id = d.id

--# one after the other, the second by what the first has found
select o.uid, a.name, b.tags from db.u o join db.t for system_time as of proctime() a on o.id = a.id left join db.t for system_time as of proctime() b on a.info.a = b.id join spark_t s on s.x = b.name

--# a query with the time as a column
select o.uid, d.name from (select *, proctime() as pt from db.u) as o join db.t for system_time as of o.pt as d on o.id = d.id

--# behind WITH, and in an inner query
with o as (select uid, id, current_timestamp() pt from db.u), p as (select o.*, d.name from o join db.t for system_time as of o.pt d on o.id = d.id) select count(*) from (select p.name from p join db.t for system_time as of pt e on p.uid = e.id) where name > ''

--# a column of Spark's view is the time of reading by its name
select d.name from sourceTable o join db.t for system_time as of o.proc_time d on o.id = d.id

--# an event time is refused
select d.name from sourceTable o join db.t for system_time as of o.ts d on o.id = d.id

--# so is a column of the table, followed through a query
select d.name from (select id, ts as at from db.t) o join db.t for system_time as of o.at d on o.id = d.id

--# a column that is not there
select d.name from db.u o join db.t for system_time as of o.at d on o.id = d.id

--# a table without a primary key
select 1 from db.t o join db.u for system_time as of proctime() d on o.id = d.id

--# no key in the condition
select 1 from db.u o join db.t for system_time as of proctime() d on o.name = d.name

--# an or is no key
select 1 from db.u o join db.t for system_time as of proctime() d on o.id = d.id or o.name = d.name

--# no condition
select 1 from db.u o join db.t for system_time as of proctime() d

--# a table of Spark
select 1 from db.u o join spark_t for system_time as of proctime() d on o.id = d.id

--# a full join
select 1 from db.u o full join db.t for system_time as of proctime() d on o.id = d.id

--# no join
select 1 from db.t for system_time as of proctime() d

--# a column that may be of two relations
select 1 from db.u o join spark_t s on s.id = o.id left join db.t for system_time as of proctime() d on o.id = d.id and uid > 1

--# a time in the past stays time travel
select d.name from db.u o join db.t for system_time as of '2024-01-31 12:00:00' d on o.id = d.id

--# an insert from a lookup join
insert into other.t select o.uid, d.name from db.u o join db.t for system_time as of proctime() d on o.id = d.id

--# a lasting view of one
create temporary view joined as select o.uid, d.name from sourceTable o join db.t for system_time as of proctime() d on o.id = d.id
