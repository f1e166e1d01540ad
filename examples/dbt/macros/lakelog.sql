{#- What dbt-spark does not know of lakelog. Copy this file into a project of your own. -#}

{#- dbt-spark compares file_format and incremental_strategy with a list: lakelog's tables have all strategies. -#}
{% macro dbt_spark_validate_get_file_format(raw_file_format) %}
  {% do return(raw_file_format) %}
{% endmacro %}

{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {% if raw_strategy not in ['append', 'merge', 'insert_overwrite', 'microbatch'] %}
    {% do exceptions.raise_compiler_error("Invalid incremental strategy: " ~ raw_strategy) %}
  {% endif %}
  {% do return(raw_strategy) %}
{% endmacro %}

{#- A view over lakelog's tables is one of the session: `dbt build` makes it before the models and tests that read it. -#}
{% macro spark__create_view_as(relation, sql) %}
  create or replace temporary view {{ relation.include(schema=false) }} as
  {{ sql }}
{% endmacro %}

{#- So its name has no schema. -#}
{% macro ref() %}
  {% set relation = builtins.ref(*varargs, **kwargs) %}
  {% set views = graph.nodes.values() | selectattr('config.materialized', 'equalto', 'view') if execute else [] %}
  {% do return(relation.include(schema=false) if varargs[-1] in views | map(attribute='name') else relation) %}
{% endmacro %}

{#- Descriptions of columns with `persist_docs`: dbt-spark writes them for other formats only. -#}
{% macro spark__alter_column_comment(relation, column_dict) %}
  {% for name, column in column_dict.items() %}
    {% do run_query("alter table " ~ relation ~ " alter column " ~ adapter.quote(name) ~ " comment '"
                    ~ column['description'] | replace("'", "\\'") ~ "'") %}
  {% endfor %}
{% endmacro %}
