-- Joins that choose partitions of other.p (day, hour) by the rows of another table.

--# an inner join, in ON, USING-less and in WHERE
select p.name from other.p join db.arctic a on a.id = p.hour where a.name = 'x';
select p.name from other.p, db.arctic as a where a.id = p.hour and a.name = 'x';
select count(*) from other.p p inner join db.u on p.hour = u.id and u.name > 'a' join db.arctic a on a.id = u.id
--> query:
-->   select p.name from v1 AS `p` join v2 a on a.id = p.hour where a.name = 'x'
-->   v1 = other.p [hour, name] where hour in v2.id
-->   v2 = db.arctic [id, name]
--> query:
-->   select p.name from v3 AS `p`, v4 as a where a.id = p.hour and a.name = 'x'
-->   v3 = other.p [hour, name] where hour in v4.id
-->   v4 = db.arctic [id, name]
--> query:
-->   select count(*) from v5 p inner join v6 AS `u` on p.hour = u.id and u.name > 'a' join v7 a on a.id = u.id
-->   v5 = other.p [hour] where hour in v6.id
-->   v6 = db.u [id, name]
-->   v7 = db.arctic [id]

--# a semi join, and IN over a query
select * from other.p left semi join db.arctic a on p.hour = a.id;
select * from other.p where hour in (select id from db.arctic where name = 'x');
select * from other.p x join db.u on x.id = u.id where x.hour in (select a.id from db.arctic a)
--> query:
-->   select * from v1 AS `p` left semi join v2 a on p.hour = a.id
-->   v1 = other.p [*] where hour in v2.id
-->   v2 = db.arctic [*]
--> query:
-->   select * from v3 AS `p` where hour in (select id from v4 AS `arctic` where name = 'x')
-->   v3 = other.p [*] where hour in v4.id
-->   v4 = db.arctic [id, name]
--> query:
-->   select * from v5 x join v6 AS `u` on x.id = u.id where x.hour in (select a.id from v7 a)
-->   v5 = other.p [*] where hour in v7.id
-->   v6 = db.u [*]
-->   v7 = db.arctic [id]

--# an outer join whose rows depend on the other side
select * from db.arctic a left join other.p on a.id = p.hour;
select * from other.p left join db.arctic a on a.id = p.hour
--> query:
-->   select * from v1 a left join v2 AS `p` on a.id = p.hour
-->   v1 = db.arctic [*]
-->   v2 = other.p [*] where hour in v1.id
--> query:
-->   select * from v3 AS `p` left join v4 a on a.id = p.hour
-->   v3 = other.p [*]
-->   v4 = db.arctic [*]

--# what chooses no partitions
select * from other.p full outer join db.arctic a on a.id = p.hour;
select * from other.p right join db.arctic a on a.id = p.hour;
select * from other.p left anti join db.arctic a on a.id = p.hour;
select * from other.p where hour not in (select id from db.arctic);
select * from other.p join db.arctic a on a.id = p.hour or a.id = 1;
select * from other.p join db.arctic a on a.id = p.hour + 1;
select * from other.p join db.arctic a on a.name = p.hour;
select * from other.p join db.arctic a on a.id = p.id;
select * from other.p where hour in (select id from db.arctic limit 1);
select * from other.p where hour in (select id from db.arctic) or id = 1;
select * from other.p where hour in (select p.hour from db.arctic);
select * from other.p join spark_t a on a.id = p.hour;
select * from other.p join db.arctic /*+ OPTIONS('read.mode' = 'log') */ a on a.id = p.hour
--> query:
-->   select * from v1 AS `p` full outer join v2 a on a.id = p.hour
-->   v1 = other.p [*]
-->   v2 = db.arctic [*]
--> query:
-->   select * from v3 AS `p` right join v4 a on a.id = p.hour
-->   v3 = other.p [*]
-->   v4 = db.arctic [*]
--> query:
-->   select * from v5 AS `p` left anti join v6 a on a.id = p.hour
-->   v5 = other.p [*]
-->   v6 = db.arctic [*]
--> query:
-->   select * from v7 AS `p` where hour not in (select id from v8 AS `arctic`)
-->   v7 = other.p [*]
-->   v8 = db.arctic [id]
--> query:
-->   select * from v9 AS `p` join v10 a on a.id = p.hour or a.id = 1
-->   v9 = other.p [*]
-->   v10 = db.arctic [*]
--> query:
-->   select * from v11 AS `p` join v12 a on a.id = p.hour + 1
-->   v11 = other.p [*]
-->   v12 = db.arctic [*]
--> query:
-->   select * from v13 AS `p` join v14 a on a.name = p.hour
-->   v13 = other.p [*]
-->   v14 = db.arctic [*]
--> query:
-->   select * from v15 AS `p` join v16 a on a.id = p.id
-->   v15 = other.p [*]
-->   v16 = db.arctic [*]
--> query:
-->   select * from v17 AS `p` where hour in (select id from v18 AS `arctic` limit 1)
-->   v17 = other.p [*]
-->   v18 = db.arctic [id]
--> query:
-->   select * from v19 AS `p` where hour in (select id from v20 AS `arctic`) or id = 1
-->   v19 = other.p [*]
-->   v20 = db.arctic [id]
--> query:
-->   select * from v21 AS `p` where hour in (select p.hour from v22 AS `arctic`)
-->   v21 = other.p [*]
-->   v22 = db.arctic [id]
--> query:
-->   select * from v23 AS `p` join spark_t a on a.id = p.hour
-->   v23 = other.p [*]
--> query:
-->   select * from v24 AS `p` join v25  a on a.id = p.hour
-->   v24 = other.p [*]
-->   v25 = db.arctic [*] read.mode=log
