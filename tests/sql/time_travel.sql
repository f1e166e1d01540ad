--# a version is a snapshot id or a tag
select id from db.t version as of 3;
select id from db.t for system_version as of 'monthly' where id = 1
--> query:
-->   select id from v1 AS `t`
-->   v1 = db.t [id] scan.version=3
--> query:
-->   select id from v2 AS `t`  where id = 1
-->   v2 = db.t [*] scan.version=monthly

--# a time is text
select id from db.t timestamp as of '2024-01-31 12:00:00' x join db.u for system_time as of timestamp'2024-02-01' on x.id = u.id
--> query:
-->   select id from v1  x join v2 AS `u`  on x.id = u.id
-->   v1 = db.t [id] scan.timestamp=2024-01-31 12:00:00
-->   v2 = db.u [id] scan.timestamp=2024-02-01

--# columns are those of that time
select id, tags from db.t version as of 'before tags'
--> query:
-->   select id, tags from v1 AS `t`
-->   v1 = db.t [id] scan.version=before tags

--# a hint stands for a version, too
select t$snapshots.total from db.t$snapshots /*+ OPTIONS('scan.tag-name'='monthly') */
--> query:
-->   select `t$snapshots`.total from v1 AS `t$snapshots`
-->   v1 = db.t$snapshots [total] scan.tag-name=monthly

--# a time is computed
select id from db.t timestamp as of current_timestamp() - interval 2 days where id = 1;
select id from db.t for timestamp as of (current_date() - 1) as x join db.u timestamp as of date_sub(current_date(), 1) y on x.id = y.id
--> millis of current_timestamp() - interval 2 days
--> query:
-->   select id from v1 AS `t`  where id = 1
-->   v1 = db.t [id] scan.timestamp-millis=1000
--> millis of (current_date() - 1)
--> millis of date_sub(current_date(), 1)
--> query:
-->   select id from v2  as x join v3  y on x.id = y.id
-->   v2 = db.t [id] scan.timestamp-millis=1000
-->   v3 = db.u [id] scan.timestamp-millis=1000
