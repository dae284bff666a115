import json

from jinja2 import Environment, StrictUndefined, UndefinedError

TEMPLATE = """\
# Orders of {{ customer | title }}
{% for order in orders if order.status != "cancelled" %}
- #{{ order.order_id }} ({{ order.status }}{% if order.discount %}, -{{ order.discount }} %{% endif %})
{%- for item in order["items"] %}
    * {{ "%-8s" | format(item.sku) }} {{ item.qty }} x {{ "%.2f" | format(item.price) }}
{%- endfor %}
  total {{ order["items"] | sum_total | money }}
{% else %}
nothing
{% endfor %}
{% macro line(n) %}{{ "-" * n }}{% endmacro %}{{ line(20) }}
{{ orders | map(attribute="status") | unique | sort | join(", ") }}
{{ note | e }}
"""

env = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
env.filters["money"] = lambda v: f"{v:,.2f} EUR"
env.filters["sum_total"] = lambda items: sum(i["qty"] * i["price"] for i in items)

with open("data/orders.json") as f:
    orders = [o for o in json.load(f) if o["customer_id"] in (3, 4, 5)]

print(env.from_string(TEMPLATE).render(customer="lena fischer", orders=orders, note="<b>paid & sent</b>"))
try:
    env.from_string("{{ missing.value }}").render()
except UndefinedError as e:
    print("error:", e)
