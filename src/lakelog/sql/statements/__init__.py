"""Every statement that lakelog understands: its first keywords → its class. One file and one line each.

The longest match of keywords wins. A statement that matches nothing, or whose class says that it is not
lakelog's, is PASS_THROUGH.
"""

from __future__ import annotations

from lakelog.options.registry import Registry
from lakelog.sql.statement import ParsedStatement

PASS_THROUGH = "(anything else)"

STATEMENTS: Registry[ParsedStatement] = Registry(
    "statement",
    {
        "CREATE TABLE": "lakelog.sql.statements.create_table:CreateTable",
        "CREATE OR REPLACE": "lakelog.sql.statements.create_table:CreateTable",
        "REPLACE TABLE": "lakelog.sql.statements.create_table:CreateTable",
        "CREATE EXTERNAL TABLE": "lakelog.sql.statements.create_table:CreateTable",
        "CREATE TABLE AS": "lakelog.sql.statements.create_table_as:CreateTableAs",
        "REPLACE TABLE AS": "lakelog.sql.statements.create_table_as:CreateTableAs",
        "CREATE TABLE LIKE": "lakelog.sql.statements.create_table_like:CreateTableLike",
        "ALTER TABLE": "lakelog.sql.statements.alter_table:AlterTable",
        "DROP TABLE": "lakelog.sql.statements.drop_table:DropTable",
        "CREATE DATABASE": "lakelog.sql.statements.create_database:CreateDatabase",
        "CREATE SCHEMA": "lakelog.sql.statements.create_database:CreateDatabase",
        "CREATE CATALOG": "lakelog.sql.statements.create_catalog:CreateCatalog",
        "DROP CATALOG": "lakelog.sql.statements.drop_catalog:DropCatalog",
        "DROP DATABASE": "lakelog.sql.statements.drop_database:DropDatabase",
        "DROP SCHEMA": "lakelog.sql.statements.drop_database:DropDatabase",
        "USE": "lakelog.sql.statements.use:Use",
        "SET CATALOG": "lakelog.sql.statements.use:Use",
        "SHOW TABLES": "lakelog.sql.statements.show_tables:ShowTables",
        "SHOW TABLE EXTENDED": "lakelog.sql.statements.show_table_extended:ShowTableExtended",
        "SHOW DATABASES": "lakelog.sql.statements.show_databases:ShowDatabases",
        "SHOW SCHEMAS": "lakelog.sql.statements.show_databases:ShowDatabases",
        "SHOW CATALOGS": "lakelog.sql.statements.show_catalogs:ShowCatalogs",
        "SHOW COLUMNS": "lakelog.sql.statements.show_columns:ShowColumns",
        "SHOW PARTITIONS": "lakelog.sql.statements.show_partitions:ShowPartitions",
        "SHOW TBLPROPERTIES": "lakelog.sql.statements.show_tblproperties:ShowTblproperties",
        "SHOW CREATE TABLE": "lakelog.sql.statements.show_create_table:ShowCreateTable",
        "DESCRIBE": "lakelog.sql.statements.describe:Describe",
        "DESC": "lakelog.sql.statements.describe:Describe",
        "DESCRIBE HISTORY": "lakelog.sql.statements.describe_history:DescribeHistory",
        "DESC HISTORY": "lakelog.sql.statements.describe_history:DescribeHistory",
        "DESCRIBE DETAIL": "lakelog.sql.statements.describe_detail:DescribeDetail",
        "DESC DETAIL": "lakelog.sql.statements.describe_detail:DescribeDetail",
        "DESCRIBE DATABASE": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "DESCRIBE SCHEMA": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "DESCRIBE NAMESPACE": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "DESC DATABASE": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "DESC SCHEMA": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "DESC NAMESPACE": "lakelog.sql.statements.describe_database:DescribeDatabase",
        "COMMENT ON TABLE": "lakelog.sql.statements.comment_on:CommentOn",
        "REFRESH TABLE": "lakelog.sql.statements.refresh_table:RefreshTable",
        "CALL": "lakelog.sql.statements.call:Call",
        "INSERT": "lakelog.sql.statements.insert:Insert",
        "TRUNCATE TABLE": "lakelog.sql.statements.truncate_table:TruncateTable",
        "ALTER TABLE ADD PARTITION": "lakelog.sql.statements.add_partition:AddPartition",
        "ALTER TABLE DROP PARTITION": "lakelog.sql.statements.drop_partition:DropPartition",
        "ALTER TABLE TAG": "lakelog.sql.statements.alter_table_tag:AlterTableTag",
        "ALTER TABLE BRANCH": "lakelog.sql.statements.alter_table_branch:AlterTableBranch",
        "SHOW TAGS": "lakelog.sql.statements.show_tags:ShowTags",
        "DELETE FROM": "lakelog.sql.statements.delete:Delete",
        "UPDATE": "lakelog.sql.statements.update:Update",
        "MERGE INTO": "lakelog.sql.statements.merge_into:MergeInto",
        "MERGE WITH SCHEMA": "lakelog.sql.statements.merge_into:MergeInto",
        "OPTIMIZE": "lakelog.sql.statements.optimize:Optimize",
        "VACUUM": "lakelog.sql.statements.vacuum:Vacuum",
        "RESTORE": "lakelog.sql.statements.restore:Restore",
        "ANALYZE TABLE": "lakelog.sql.statements.analyze_table:AnalyzeTable",
        "SELECT": "lakelog.sql.statements.query:Query",
        "FROM": "lakelog.sql.statements.query:Query",
        "TABLE": "lakelog.sql.statements.query:Query",
        "VALUES": "lakelog.sql.statements.query:Query",
        "WITH": "lakelog.sql.statements.query:Query",
        "(": "lakelog.sql.statements.query:Query",
        PASS_THROUGH: "lakelog.sql.statements.pass_through:PassThrough",
    },
)
