-- Links that show that a mail address is somebody's: the new address of a person, or that of a stranger who registers.
alter table account_links
  add column email text check (email = lower(email)), -- The address that the link was sent to.
  drop constraint account_links_purpose_check, drop constraint account_links_check, drop constraint account_links_check1,
  -- address: makes `email` the address of `user_id`. registration: makes an account with `email`.
  add constraint account_links_purpose check (purpose in ('set_up', 'reset', 'invitation', 'address', 'registration')),
  add constraint account_links_user check ((purpose in ('reset', 'address')) = (user_id is not null)),
  add constraint account_links_invitation check ((purpose = 'invitation') = (invitation_id is not null)),
  add constraint account_links_email check ((purpose in ('address', 'registration')) = (email is not null));
