-- The settings take this token, though the deposit asked for another one.
alter table deposit_wrong_tokens add column is_taken boolean not null default false;
