-- DWD: one row per flight that has left, with the names of its airline and its destination.
create materialized view if not exists dwd.flights as
select f.flight_id, f.carrier, a.name as airline, f.origin, f.dest, p.name as destination,
       date_trunc('day', f.scheduled) as day, f.scheduled, f.departed, f.arrived, f.dep_delay, f.arr_delay, f.status
from ods.flights f
left join ods.airlines a on f.carrier = a.carrier
left join ods.airports p on f.dest = p.faa
where f.status <> 'scheduled';

-- DWS: flights and delays by airline and day, from the view above.
create materialized view if not exists dws.carrier_days refresh every 2 seconds as
select carrier, day, max(airline) as airline, count(*) as departed, count(arrived) as arrived,
       count(*) filter (where dep_delay > 15) as late, avg(arr_delay) as arrival_delay
from dwd.flights
group by carrier, day;
