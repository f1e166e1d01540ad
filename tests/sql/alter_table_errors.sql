-- ALTER TABLE that is refused: the error points at the place and says what to do.

--# no clause
alter table db.t
--> UnsupportedStatement:
-->   line 1, column 17: expected ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, CHANGE, MODIFY, SET TBLPROPERTIES, UNSET TBLPROPERTIES, SET, RESET or RENAME TO, found the end of the statement
-->   alter table db.t
-->                   ^

--# an unknown clause
alter table db.t freeze
--> UnsupportedStatement:
-->   line 1, column 18: expected ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, CHANGE, MODIFY, SET TBLPROPERTIES, UNSET TBLPROPERTIES, SET, RESET or RENAME TO, found 'freeze'
-->   alter table db.t freeze
-->                    ^

--# no type
alter table db.t add column x
--> UnsupportedStatement:
-->   line 1, column 30: expected a type, found the end of the statement
-->   alter table db.t add column x
-->                                ^

--# no parenthesis
alter table db.t add columns (x int
--> UnsupportedStatement:
-->   line 1, column 36: expected ')' or ',' after a column, found the end of the statement
-->   alter table db.t add columns (x int
-->                                      ^

--# more behind it
alter table db.t drop column name cascade
--> UnsupportedStatement:
-->   line 1, column 35: expected the end of the statement, found 'cascade'
-->   alter table db.t drop column name cascade
-->                                     ^

--# a column that is there
alter table db.t add columns (x int, name string)
--> InvalidSchema:
-->   line 1, column 38: column 'name' exists: choose another name
-->   alter table db.t add columns (x int, name string)
-->                                        ^

--# not null
alter table db.t add column x int not null
--> InvalidSchema:
-->   line 1, column 29: column 'x' cannot be added as NOT NULL: existing rows have no value for it. Add it without NOT NULL
-->   alter table db.t add column x int not null
-->                               ^

--# an unknown column
alter table db.t drop column nam
--> InvalidSchema:
-->   line 1, column 30: there is no column 'nam', did you mean 'name'? The table has: id, name, ts, tags, info
-->   alter table db.t drop column nam
-->                                ^

--# a key
alter table db.t drop column id
--> InvalidSchema:
-->   line 1, column 30: column 'id' cannot be dropped: it is a primary key column (id); create a new table and copy the rows
-->   alter table db.t drop column id
-->                                ^

--# a type that it cannot become
alter table db.t
  alter column tags type int
--> InvalidSchema:
-->   line 2, column 16: column 'tags' of type ARRAY cannot become INT: existing files would be unreadable; add a new column of the other type
-->     alter column tags type int
-->                  ^

--# not null of what may be null
alter table db.t alter column name set not null
--> InvalidSchema:
-->   line 1, column 31: column 'name' cannot become NOT NULL: existing rows may have NULL. If you know that none does, set 'alter-column-null-to-not-null.disabled' = 'false' first
-->   alter table db.t alter column name set not null
-->                                 ^

--# behind an unknown column
alter table db.t add column x int after nothing
--> InvalidSchema:
-->   line 1, column 29: there is no column 'nothing'. The table has: id, name, ts, tags, info
-->   alter table db.t add column x int after nothing
-->                               ^

--# a part of what has no parts
alter table db.t add column name.x int
--> InvalidSchema:
-->   line 1, column 29: there is no column 'name.x': 'name' is STRING and has no fields
-->   alter table db.t add column name.x int
-->                               ^

--# the element of an array
alter table db.t drop column tags.element
--> InvalidSchema:
-->   line 1, column 30: 'tags.element' cannot be added, dropped or renamed: it is an element of its column
-->   alter table db.t drop column tags.element
-->                                ^

--# an option that is fixed
alter table db.t set tblproperties ('primary-key' = 'name')
--> InvalidOption:
-->   line 1, column 36: option 'primary-key' cannot be set to 'name': it is fixed when a table is created; create a new table and copy the rows
-->   alter table db.t set tblproperties ('primary-key' = 'name')
-->                                      ^

--# a primary key
alter table db.t add primary key (id) not enforced
--> UnsupportedStatement:
-->   line 1, column 22: the primary key is fixed when a table is created; create a new table and copy the rows
-->   alter table db.t add primary key (id) not enforced
-->                        ^

--# a watermark
alter table db.t add watermark for ts as ts
--> UnsupportedStatement:
-->   line 1, column 22: name the column of the event time in the option 'watermark.column', and its 'watermark.delay'
-->   alter table db.t add watermark for ts as ts
-->                        ^

--# replace columns
alter table db.t replace columns (a int)
--> UnsupportedStatement:
-->   line 1, column 34: REPLACE COLUMNS would drop all columns; describe the change with ADD, DROP, RENAME and ALTER COLUMN
-->   alter table db.t replace columns (a int)
-->                                    ^

--# a computed column
alter table db.t add (x as id + 1)
--> UnsupportedStatement:
-->   line 1, column 25: column 'x' is computed, which is not supported; compute it in the query or in a view
-->   alter table db.t add (x as id + 1)
-->                           ^

--# an action that is none
alter table db.t alter column name drop default 3
--> UnsupportedStatement:
-->   line 1, column 49: expected the end of the statement, found '3'
-->   alter table db.t alter column name drop default 3
-->                                                   ^

--# a default that is no literal
alter table db.t alter column ts set default current_timestamp
--> UnsupportedStatement:
-->   line 1, column 46: a default is one value for all rows; write a literal such as 0, 'none' or date'2024-01-31'
-->   alter table db.t alter column ts set default current_timestamp
-->                                                ^

--# a missing table
alter table db.tt add column x int
--> NotFound:
-->   table or view 'db.tt' does not exist in database 'db', did you mean 't'?
