-- Old invitations are removed, and the links of each with it.
create index invitations_by_expiry on invitations (expires_at);
create index account_links_by_invitation on account_links (invitation_id) where invitation_id is not null;
