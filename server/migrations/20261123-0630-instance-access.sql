-- How apps of instances are reached through the gateway (`server/src/instances/access/README.md`): where their driver has them, as a URL or
-- `unix:` and the path of a socket, while `app_url` and `terminal_url` are what customers see; and the SHA-256 of the password.
-- Null: not through the gateway; no password was made.
alter table instances add column app_target text, add column terminal_target text,
  add column app_password_hash bytea check (octet_length(app_password_hash) = 32);
