-- The attempt whose kept answer shows the password of an instance's app: the answer is forgotten when another password ends that one, or the
-- instance ends. Null: no answer was kept.
alter table instances add column app_password_attempt uuid;
