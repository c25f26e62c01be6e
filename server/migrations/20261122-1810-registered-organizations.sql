-- Organizations of strangers may have any name: names are unique among those that an operator made, which commands call by name.
alter table organizations
  add column is_registered boolean not null default false, -- True: somebody registered with it.
  drop constraint organizations_name_key;
create unique index organizations_by_name on organizations (name) where not is_registered;
