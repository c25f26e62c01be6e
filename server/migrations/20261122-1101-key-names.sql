-- The operator's word for a key, such as the program that uses it. Null: it has none. Names need not differ.
alter table api_keys add column name text;
