{{ config(materialized='view') }}

select id, customer_id, amount
from {{ ref('orders') }}
where ordered_at >= timestamp'2026-04-02 00:00:00'
