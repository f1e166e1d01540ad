{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='id',
    on_schema_change='append_new_columns',
    tblproperties={'primary-key': 'id', 'bucket': '1', 'log-store.enabled': 'true'},
) }}

select o.id, o.amount, o.ordered_at, c.city
from {{ ref('orders') }} o
join {{ ref('customers') }} c on c.id = o.customer_id
{% if is_incremental() %}
where o.ordered_at >= (select max(ordered_at) from {{ this }})
{% endif %}
