-- Data keys rotate: several may be there at a time, each with a number, under which sealed values name their key.
alter table data_keys drop constraint data_keys_pkey, drop column is_only;
alter table data_keys
  add number smallint not null default 1,
  -- offered: processes are asked to take it up; nobody seals with it. sealing: new values are sealed with it.
  -- opening: values that are sealed with it are left. dropped: nothing is sealed with it any more.
  add state text not null default 'sealing' check (state in ('offered', 'sealing', 'opening', 'dropped'));
alter table data_keys alter number drop default, alter state drop default, add primary key (number), add unique (fingerprint);
create unique index data_keys_one_offered on data_keys (state) where state = 'offered';
create unique index data_keys_one_sealing on data_keys (state) where state = 'sealing';

-- The keys of each living process, in the row of its slot. A row is believed while the slot's lock is held.
create table data_key_holders (
  slot integer primary key,
  held smallint[] not null, -- Numbers of the keys that it can open values with.
  seals smallint not null -- Number of the oldest key that it may still seal with.
);

-- Number of the key that a value is sealed with. Everything so far is sealed with the first.
alter table idempotent_attempts add data_key smallint not null default 1;
alter table webhook_endpoints add data_key smallint not null default 1;
