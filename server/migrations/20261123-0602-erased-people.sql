-- A person can be erased: the row of `users` goes, and with it what belongs to the person alone. Memberships, keys and entries of the
-- audit log stay, and name nobody any more.

-- Null: the person was erased. The membership has ended then.
alter table members
  alter column user_id drop not null,
  drop constraint members_user_id_fkey,
  add constraint members_user_id_fkey foreign key (user_id) references users (id) on delete set null,
  add constraint members_of_somebody check (user_id is not null or removed_at is not null);
-- A login is worth nothing without its member.
alter table device_logins
  drop constraint device_logins_member_id_fkey,
  add constraint device_logins_member_id_fkey foreign key (member_id) references members (id) on delete cascade;

-- All that there is of a person, ended memberships too, is looked up by these.
create index members_ever_by_user on members (user_id, id);
create index invitations_by_email on invitations (email, id);
create index invitations_by_maker on invitations (invited_by, id);
create index audit_entries_by_actor on audit_entries (actor_id, id);
create index audit_entries_by_subject on audit_entries (subject_id, id);
create index audit_entries_by_email_before on audit_entries ((before ->> 'email'), id) where before ->> 'email' is not null;
create index audit_entries_by_email_after on audit_entries ((after ->> 'email'), id) where after ->> 'email' is not null;
create index audit_entries_of_changed_organizations on audit_entries (id) where action = 'organization.changed';
