{{ config(tblproperties={'primary-key': 'customer_id', 'bucket': '1'}) }}

select c.id as customer_id, c.name, c.city, sum(o.amount) as total, count(r.id) as recent_orders
from {{ ref('customers') }} c
left join {{ ref('orders') }} o on o.customer_id = c.id
left join {{ ref('recent_orders') }} r on r.id = o.id
group by c.id, c.name, c.city
