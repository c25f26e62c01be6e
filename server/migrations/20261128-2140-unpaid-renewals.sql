-- Until when a subscription entitles past the end of its period, while its renewal is being paid. Null: its renewal is not begun, or is paid.
alter table subscriptions add column renewal_until timestamptz;

-- The start of a period that is not paid yet; period and price of the row are those before it then. Null: all is paid.
alter table payment_subscriptions add column unpaid_since timestamptz;
