-- The member that invited, by a session or by its own API key: an open invitation ends with the member's right to make it.
-- Null: an API key of the organization.
alter table invitations add column invited_by uuid references members (id);
update invitations i set invited_by = (
  select m.id from audit_entries a join members m on m.user_id = a.actor_id and m.organization_id = i.organization_id
  where a.organization_id = i.organization_id and a.action = 'invitation.created' and a.subject_id = i.id
    and a.actor_kind = 'user'
  order by m.created_at desc limit 1
);
create index invitations_open_by_member on invitations (invited_by) where accepted_at is null and withdrawn_at is null;
