{{ config(
    materialized='incremental',
    incremental_strategy='insert_overwrite',
    partition_by=['day'],
) }}

select sum(amount) as revenue, cast(ordered_at as date) as day
from {{ ref('orders') }}
{% if is_incremental() %}
where ordered_at >= (select max(day) from {{ this }})
{% endif %}
group by cast(ordered_at as date)
