-- The whole schema, by the rooms that own the tables: identity, processes, billing, http, videos, webhooks. The comment above
-- a table says what a row is and what is always true of the rows. Later files change this schema; this file stays as it is.
-- These hold for every table:
--
-- - Money is in micro-cents (a millionth of a cent), in columns that end in `_microcents`.
-- - Instants come from the program. Nothing here reads the database's clock.
-- - Only the room that owns a table writes it.
-- - A fill factor below 100 leaves room in the page, so that an update stays within it and touches no index.

-- Identity -----------------------------------------------------------------------------------------------------------

-- A customer.
create table organizations (
  id uuid primary key, name text not null unique,
  -- `established`: made by an operator. `new`: registered itself, or made with `--new` (rule K2).
  standing text not null check (standing in ('established', 'new')),
  created_at timestamptz not null,
  first_paid_at timestamptz, -- Null: it never paid.
  notify_addresses text[] not null default '{}' -- The addresses that get its notices: at most ten, set by the operator.
);

-- An API key. It is valid until it expires or is revoked, and the row stays.
create table api_keys (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  hash bytea not null unique check (octet_length(hash) = 32), -- SHA-256 of the whole key. The key itself is stored nowhere.
  scopes text not null, admin boolean not null, -- Some routes need the key of an organization's admin beside the scope.
  created_at timestamptz not null, expires_at timestamptz, revoked_at timestamptz
);
create index api_keys_by_organization on api_keys (organization_id, created_at);

-- Processes ----------------------------------------------------------------------------------------------------------

-- A slot that a gateway process has or once had. The process that holds the slot's advisory lock owns the rows of other
-- tables that are keyed by the slot, so that processes do not wait for each other. Slots are small and are used again, so
-- that such rows stay few. The slot -1 is no process's: charges of finished jobs use it, each while its account is locked.
create table processes (
  slot integer primary key,
  -- Names this taking of the slot. It is later than that of every taking before, whatever the clocks say.
  started_at timestamptz not null
);

-- Billing: admission -------------------------------------------------------------------------------------------------

-- An organization's money. Every gate is decided on this row while it is locked; several accounts are locked in the order of
-- their ids. The identity of the books holds for each account in every snapshot: the sum of `ledger_entries` less the sum of
-- `charges` is `balance_microcents` less the sum of `unfolded_spend`.
create table accounts (
  organization_id uuid primary key references organizations (id),
  balance_microcents bigint not null, -- Ledger entries less the charges that are folded in. It may be below 0.
  -- The sum of `granted_microcents` of this account's shares. Both change in one statement.
  shares_microcents bigint not null default 0 check (shares_microcents >= 0),
  -- The sum of `amount_microcents` of this account's durable holds. Both change in one transaction.
  held_microcents bigint not null default 0 check (held_microcents >= 0),

  -- The sum of the folded charges that were admitted on `day` and in `month` (UTC). A later day or month begins at 0.
  day date not null default '1970-01-01', day_spent_microcents bigint not null default 0,
  month date not null default '1970-01-01', month_spent_microcents bigint not null default 0,
  new_until timestamptz, -- While this is in the future, the account is new and has a cap (rule K2). Null: established.
  hour_spent_microcents bigint not null default 0, -- The sum of this account's `account_minutes`.

  -- The spending limits that the organization has set. Null: no limit.
  monthly_limit_microcents bigint check (monthly_limit_microcents > 0),
  daily_limit_microcents bigint check (daily_limit_microcents > 0),
  enforcement text not null default 'block_launch' check (enforcement in ('stop_running', 'block_launch', 'notify_only')),
  auto_terminate_hours integer check (auto_terminate_hours > 0), -- For live instances. Null: never.
  -- The threshold that the last notice of a low balance named. Null: the balance was not below the threshold since.
  told_below_microcents bigint
) with (fillfactor = 70);

-- A process's share of an account: the amount that it may spend without asking the database.
create table account_shares (
  organization_id uuid not null, slot integer not null, granted_microcents bigint not null check (granted_microcents >= 0),
  primary key (organization_id, slot)
) with (fillfactor = 70);

-- The sum of the charges of one minute of admission that a process has posted and that no renewal has folded into the
-- account yet. The minute tells the renewal to which day, month and hour they belong. Folding deletes the row.
create table unfolded_spend (
  organization_id uuid not null, slot integer not null, minute timestamptz not null, spent_microcents bigint not null,
  primary key (organization_id, slot, minute)
) with (fillfactor = 70);

-- The folded charges of a new account in one minute of the last hour. Deleting a row subtracts it from `hour_spent_microcents`.
create table account_minutes (
  organization_id uuid not null, minute timestamptz not null, spent_microcents bigint not null,
  primary key (organization_id, minute)
) with (fillfactor = 70);

-- A durable hold: money of the balance that is kept for work that outlives its request. Releasing it deletes the row.
create table holds (
  id uuid primary key, -- Also the id of the charge.
  organization_id uuid not null references accounts (organization_id),
  amount_microcents bigint not null check (amount_microcents > 0)
);
create index holds_by_organization on holds (organization_id) include (amount_microcents);

-- Billing: charges ---------------------------------------------------------------------------------------------------

-- A price that was in force at some time. Rows never change, so that a charge can be recomputed from the price it names.
create table price_versions (
  hash bytea primary key check (octet_length(hash) = 32), -- SHA-256 of the price's canonical JSON.
  price jsonb not null, first_seen_at timestamptz not null
);

-- The usage and cost of one call. Rows never change, and a charge is posted at most once. Each UTC day of admission has a
-- partition. A charge's id and instant are fixed together at admission, so a charge that is posted again after midnight meets
-- itself. No foreign key refers to charges, because retention drops whole days.
create table charges (
  admitted_at timestamptz not null, id uuid not null, organization_id uuid not null, key_id uuid not null,
  model text not null, tier text not null check (tier in ('serverless', 'economy')),
  price_hash bytea not null, -- Names the row of `price_versions` that was in force at admission.

  modality text check (modality in ('embedding', 'image', 'video')), -- Null: chat.
  prompt_tokens bigint not null check (prompt_tokens >= 0),
  cached_prompt_tokens bigint not null check (cached_prompt_tokens between 0 and prompt_tokens),
  completion_tokens bigint not null check (completion_tokens >= 0),
  estimated boolean not null, -- True: the provider reported no usable usage, and the tokens were counted here.
  -- Only of images: how many were delivered, and their pixels together.
  image_count integer check (image_count > 0), image_pixels bigint check (image_pixels > 0),
  video_seconds integer check (video_seconds > 0), -- Only of videos: the seconds that are billed.

  cost_microcents bigint not null check (cost_microcents >= 0), -- At most the amount that was held for the call.
  list_microcents bigint, -- The list cost, where a plan or the hold reduced the cost. Null: it is the cost.
  -- Only of charges that a plan covers, whose cost is 0: the start of the period that they count to, the model's usage
  -- factor in thousandths, and the weighted tokens.
  plan_period timestamptz, plan_factor integer, plan_input_tokens bigint, plan_output_tokens bigint,

  target text not null, -- The target that answered, for the operator.
  outcome text not null check (outcome in ('completed', 'cancelled', 'interrupted', 'cut')),
  posted_at timestamptz not null,
  primary key (admitted_at, id)
) partition by range (admitted_at);
create index charges_by_organization on charges (organization_id, admitted_at desc, id);

-- A charge that the database refused. An operator must look at each.
create table dead_charges (
  id uuid primary key,
  charge jsonb not null, reason text not null, failed_at timestamptz not null
);

-- The sums of the charges of one hour of admission that one slot has posted. Only the statement that posts charges writes
-- here. Rows stay when retention drops the charges.
create table usage_hours (
  organization_id uuid not null, hour timestamptz not null, model text not null, tier text not null,
  key_id uuid not null, slot integer not null, requests bigint not null,
  prompt_tokens bigint not null, cached_prompt_tokens bigint not null, completion_tokens bigint not null,
  image_count bigint not null default 0, video_seconds bigint not null default 0, cost_microcents bigint not null,
  primary key (organization_id, hour, model, tier, key_id, slot)
) with (fillfactor = 70);
-- Finds one hour of all organizations, for the verification. It is small: rows are written in the order of time.
create index usage_hours_by_hour on usage_hours using brin (hour) with (pages_per_range = 16, autosummarize = on);

-- The sums of `usage_hours` of one UTC day, written by the same statement. Running totals (rule B2) are added up from them.
-- The sums are in no index, so that updates stay within their page.
create table usage_days (
  organization_id uuid not null, day timestamptz not null, slot integer not null,
  requests bigint not null, cost_microcents bigint not null,
  primary key (organization_id, day, slot)
) with (fillfactor = 70);

-- Billing: ledger ----------------------------------------------------------------------------------------------------

-- A movement of money that is no charge. Rows never change. Each has a source of its own, so that none is posted twice.
create table ledger_entries (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  amount_microcents bigint not null check (amount_microcents <> 0),
  -- `charges`: stands for the charges of a day that retention has dropped.
  kind text not null check (kind in ('credit', 'refund', 'adjustment', 'charges')),
  source text not null unique,
  note text, posted_at timestamptz not null
);
create index ledger_entries_by_organization on ledger_entries (organization_id, posted_at desc);

-- A UTC day whose charges retention has dropped. In the same transaction it wrote the ledger entries that stand for them.
create table dropped_days (
  day date primary key,
  -- More than 1: charges of the day came late, and were dropped again with entries of their own.
  times integer not null check (times > 0),
  dropped_at timestamptz not null
);

-- A UTC day whose books the background verification has checked. While it checks them, `verified_at` is null.
create table verified_days (
  day date primary key,
  started_at timestamptz not null, verified_at timestamptz, disagreements bigint not null default 0
);

-- Billing: plans -----------------------------------------------------------------------------------------------------

-- An organization's subscription, set by an operator or by a payment provider. It entitles within its period and while its
-- status says so. The settings file has the plan's name and quotas; here is only the plan's key.
create table subscriptions (
  organization_id uuid primary key references organizations (id),
  plan text not null,
  status text not null, -- In the words of a payment provider. Only `active` and `trialing` entitle.
  period_start timestamptz not null, period_end timestamptz not null check (period_end > period_start),
  cancel_at_period_end boolean not null, changed_at timestamptz not null
);

-- The meter of one period: the sums of the charges of one slot that count to it. Only the posting of charges writes here.
create table plan_periods (
  organization_id uuid not null, period_start timestamptz not null, slot integer not null,
  input_tokens bigint not null, output_tokens bigint not null, list_microcents bigint not null,
  primary key (organization_id, period_start, slot)
) with (fillfactor = 70);

-- The part of a period's meter that belongs to one hour of admission, written by the same statement. The hours of a period add
-- up to its row of `plan_periods`; the rolling week is added up from hours. Rows stay when retention drops the charges.
create table plan_hours (
  organization_id uuid not null, hour timestamptz not null, period_start timestamptz not null, slot integer not null,
  requests bigint not null, input_tokens bigint not null, output_tokens bigint not null, list_microcents bigint not null,
  primary key (organization_id, hour, period_start, slot)
) with (fillfactor = 70);
-- Finds one hour of all organizations, for the verification.
create index plan_hours_by_hour on plan_hours using brin (hour) with (pages_per_range = 16, autosummarize = on);

-- Billing: notices ---------------------------------------------------------------------------------------------------

-- A notice: an organization reached a limit, or its balance is low. The transaction that sees it writes the row. The primary
-- key decides that nobody is told twice.
create table notices (
  organization_id uuid not null,
  kind text not null check (kind in ('daily', 'monthly', 'new_account', 'low_balance')),
  -- The first instant of the day or month. For a low balance: when it was seen, so that each fall is a notice of its own.
  period timestamptz not null,
  -- The amount that was spent in the period, or the balance that was left; and the limit or threshold that it met.
  amount_microcents bigint not null, limit_microcents bigint not null,
  enforcement text not null, noticed_at timestamptz not null,
  handled_at timestamptz, -- When it was logged and its mails were written to `notice_mails`, in one transaction. Null: not yet.
  primary key (organization_id, kind, period)
);
create index notices_to_handle on notices (noticed_at) where handled_at is null;
create index notices_by_age on notices using brin (noticed_at);

-- A mail of a notice to one address. The row goes when the mail server took the mail, or the last attempt failed.
create table notice_mails (
  organization_id uuid not null, kind text not null, period timestamptz not null, address text not null,
  attempts integer not null default 0,
  due_at timestamptz not null, -- The process that sends the mail first sets this ahead: until then no other process sends it.
  primary key (organization_id, kind, period, address),
  foreign key (organization_id, kind, period) references notices on delete cascade
);
create index notice_mails_by_due on notice_mails (due_at);

-- HTTP: idempotency --------------------------------------------------------------------------------------------------

-- An `Idempotency-Key` that was used with an API key: an open attempt while `status` is null, a kept answer afterwards. The
-- answer is written in the transaction of its effect.
create table idempotent_attempts (
  key_id uuid not null,
  key_hash bytea not null, -- SHA-256 of the client's `Idempotency-Key`.
  fingerprint bytea not null, -- SHA-256 of the request. The same `Idempotency-Key` with another request is refused.
  attempt uuid not null, -- Names this attempt for ever. Writers name it, so that no process ends the attempt of another.
  slot integer not null, -- The slot of the process that works on it. The attempt is dead when the slot's lock is free.
  expires_at timestamptz not null,
  status integer, content_type text, operation_id text,
  body bytea, -- Encrypted with the data key. Null: the body is an artifact, named by the attempt.
  primary key (key_id, key_hash)
) with (fillfactor = 70);
create index idempotent_attempts_by_expiry on idempotent_attempts (expires_at);
-- Finds the open attempts of a slot. Kept answers are not in it.
create index idempotent_attempts_open on idempotent_attempts (slot) where status is null;
-- Tells the sweep of artifacts which of them belong to an attempt.
create index idempotent_attempts_by_attempt on idempotent_attempts (attempt);

-- The data key that kept answers and webhook secrets are encrypted with: one row, written by the first start.
create table data_keys (
  is_only boolean primary key check (is_only),
  fingerprint text not null, first_seen_at timestamptz not null
);

-- Videos -------------------------------------------------------------------------------------------------------------

-- A video job. Its state and its due time change in one statement, which names the states that it may start from.
create table videos (
  id uuid primary key, -- Also the id of its charge and of its hold, so that there is at most one of each.
  organization_id uuid not null, key_id uuid not null,
  created_at timestamptz not null, -- Also the instant of its charge, whenever that is posted.

  model text not null, tier text not null,
  price_hash bytea not null, -- The price that was in force at `created_at`.
  second_microcents bigint not null check (second_microcents >= 0),
  prompt text, -- Deleted when the job ends.
  -- The seconds that were asked for; of a completed job, the seconds that are billed.
  seconds integer not null check (seconds > 0),
  size text,

  -- `submitting`: a provider is being asked to take the job. Customers see `queued`.
  status text not null check (status in ('queued', 'submitting', 'in_progress', 'completed', 'failed', 'cancelled', 'expired')),
  progress integer not null default 0 check (progress between 0 and 100),
  -- Counts how often a process took the job up. Writers name it, so that no process writes for another.
  attempt integer not null default 0,
  -- When somebody must look at the job again: to ask the provider, to cancel its work, to expire it. The process that does so
  -- first sets this ahead: until then no other process looks, and after that another one does. Null: never.
  due_at timestamptz,

  -- The id that we gave the job at the provider, and the target. Written before the request is sent.
  submission uuid, target_provider text, target_model text,
  provider_job text, -- The provider's own id of the job, as soon as it is known.
  started_at timestamptz,
  misses integer not null default 0, -- How many times in a row the provider did not know the job, or sent a file that broke off.

  completed_at timestamptz,
  -- When the job was cancelled, if it was in progress then: so many in an hour, and the organization must wait. Else null.
  cancelled_in_progress_at timestamptz,
  expires_at timestamptz,
  cost_microcents bigint check (cost_microcents >= 0),
  error text check (error in ('upstream_error', 'upstream_timeout', 'content_policy', 'invalid_output', 'internal_error')),
  artifact text, artifact_bytes bigint -- The name of its file, and its size. Null: it has no file.
) with (fillfactor = 70);
-- Pages of GET /videos.
create index videos_by_organization on videos (organization_id, created_at, id);
-- Finds the next job of the next organization of a model with one look, however many jobs wait.
create index videos_queued on videos (model, organization_id, id) where status = 'queued';
-- Counts the jobs under way. They are few, because each model has its bound.
create index videos_under_way on videos (model) where status in ('submitting', 'in_progress');
create index videos_due on videos (due_at) where due_at is not null;
-- Tells how long the jobs of a model took lately.
create index videos_completed on videos (model, completed_at) where completed_at is not null;
create index videos_cancelled_in_progress on videos (organization_id, cancelled_in_progress_at)
  where cancelled_in_progress_at is not null;
create index videos_by_artifact on videos (artifact) where artifact is not null;

-- The queue of one model that ever had a job. A process that starts jobs of the model locks this row.
create table video_queues (
  model text primary key,
  -- The organization that had the last turn. The next turn is that of the next higher id that waits, else of the lowest.
  last_organization_id uuid not null,
  due_at timestamptz not null, -- No provider took a job: none is asked before this instant.
  failures integer not null default 0 -- How many times in a row no provider took a job.
) with (fillfactor = 70);

-- Webhooks -----------------------------------------------------------------------------------------------------------
-- Locks are taken in one order: endpoint, turns by id, deliveries.

-- A URL that an organization's events are sent to.
create table webhook_endpoints (
  id uuid primary key, organization_id uuid not null references organizations (id), url text not null,
  -- The list that the endpoint was created with. Event types that Tollgate gets later never reach it.
  event_types text[] not null,
  enabled boolean not null,
  secret bytea not null, -- The secret that deliveries are signed with, encrypted with the data key.
  attempt uuid, -- The idempotent attempt whose kept answer shows the secret. It is deleted with the endpoint.
  created_at timestamptz not null
);
create index webhook_endpoints_by_organization on webhook_endpoints (organization_id, created_at, id);

-- An event. It is written in the transaction of what happened, never changes, and is kept for 30 days.
create table webhook_events (
  id uuid primary key, organization_id uuid not null, type text not null,
  body text not null, -- The bytes that are signed and sent, as UTF-8.
  created_at timestamptz not null,
  -- The transaction that wrote it. The stream of events reads in this order and stops before the oldest transaction that still
  -- runs, so that it misses no event that commits late.
  written_by xid8 not null
);
create index webhook_events_in_order on webhook_events (organization_id, written_by, id);
create index webhook_events_by_age on webhook_events (created_at);

-- One event on its way to one endpoint, written with the event and kept for 30 days, also when the endpoint is deleted.
create table webhook_deliveries (
  id uuid primary key, organization_id uuid not null, endpoint_id uuid not null, event_id uuid not null,
  state text not null check (state in ('pending', 'delivered', 'dead')),
  -- The attempts that have ended, of all rounds, and how many of them were before this round. A round goes through the
  -- schedule once; a redelivery begins a new one.
  attempts integer not null, attempts_before_round integer not null,
  due_at timestamptz, -- When the next attempt is due. Null: the delivery is finished.
  is_new boolean not null, -- True: its endpoint's turn was not told of it yet.
  created_at timestamptz not null,
  unique (event_id, endpoint_id)
) with (fillfactor = 70);
create index webhook_deliveries_new on webhook_deliveries (created_at) where is_new;
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_at) where state = 'pending' and not is_new;
create index webhook_deliveries_listed on webhook_deliveries (organization_id, created_at desc, id desc);
create index webhook_deliveries_by_age on webhook_deliveries (created_at);

-- An endpoint's place in the queue. Processes take turns, not deliveries, so a long queue of one endpoint delays no other.
create table webhook_turns (
  endpoint_id uuid primary key references webhook_endpoints (id) on delete cascade,
  -- When the first of its deliveries is due. While a process has the turn: when that process counts as dead. Null: idle.
  due_at timestamptz,
  lease uuid, -- Names this taking of the turn. Results count only with it.
  is_slow boolean not null -- True: its last attempt timed out or took long, so it waits in the slow lane.
) with (fillfactor = 50);
create index webhook_turns_due on webhook_turns (is_slow, due_at) where due_at is not null;

-- An ended attempt of a delivery. Rows never change and are kept for 30 days.
create table webhook_attempts (
  delivery_id uuid not null,
  number integer not null, -- From 1.
  started_at timestamptz not null, latency_ms integer not null,
  status integer, failure text, -- The status of the answer. Null: no answer came, and `failure` says why.
  answer bytea, -- The first 4 KiB of the answer.
  primary key (delivery_id, number)
);
create index webhook_attempts_by_age on webhook_attempts (started_at);
