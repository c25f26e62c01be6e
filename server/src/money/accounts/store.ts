/** Every query on accounts, allotments and what is spent of them: the sums that grants are decided on. */

import type { Queryable } from '../../io/postgres/database.ts'

export interface RefillRow {
  readonly organization_id: string
  readonly granted: bigint
  readonly elsewhere: bigint
  readonly room_balance: bigint
  readonly room_daily: bigint | null
  readonly room_monthly: bigint | null
  readonly room_new_account: bigint | null
  readonly stopped: 'daily' | 'monthly' | null
  readonly stops_running: boolean
  readonly day_start: Date
  readonly passes_notice: boolean
  readonly noticed: boolean
}

/**
 * Folds what a slot has spent into the accounts, takes what it gives back, and grants what it needs, for many
 * organizations at once. One statement, so that a process stopped in the middle keeps no row locked: the server ends it
 * alone. All that is judged stands on the locked row of the account. `order by` and the order of the parts keep refills
 * and folds of any slots from deadlocks: own allotments, own slices, then accounts, each by id.
 */
export async function refillRows(
  db: Queryable,
  slot: number,
  wants: {
    readonly organizations: string
    readonly launches: string
    readonly leasts: string
    readonly extensions: string
    readonly givesBack: string
  },
  now: { readonly at: string; readonly day: string; readonly month: string; readonly windowFrom: string },
  newAccountCapMicrocents: bigint,
  lowBalanceMicrocents: bigint,
  takenAt: string | null,
): Promise<RefillRow[]> {
  return db.query<RefillRow>(REFILL, [
    wants.organizations,
    wants.launches,
    wants.leasts,
    wants.extensions,
    wants.givesBack,
    slot,
    now.at,
    now.day,
    now.month,
    now.windowFrom,
    newAccountCapMicrocents,
    lowBalanceMicrocents,
    takenAt,
  ])
}

/**
 * `locked` reads nothing but the account's row and what was locked before: when it has had to wait, PostgreSQL looks at
 * the row again, and at nothing else. Figures are made of it afterwards.
 *
 * `reached` is what somebody must be told: limits and thresholds that the figures have met. What is folded of a day or a
 * month that is over is added up from `usage_days`, which count every charge as it is posted: whoever folds the last of
 * it sees all of it. Nobody is told of a day that is over for more than 31 days. The rows' key says what was told before.
 */
const REFILL = `
  with taken as (
    -- Who takes the slot waits for this statement, or this one finds it taken by another.
    select slot from processes where slot = $6::integer and started_at = $13::timestamptz for share
  ), wanted as (
    select * from unnest($1::text::uuid[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[],
      $5::text::bigint[]) as w (organization_id, launch, least, extension, give_back)
    where $13::timestamptz is null or (select count(*) from taken) > 0
  ), mine as (
    select organization_id, granted_microcents as granted from allotments
    where slot = $6::integer and organization_id = any($1::text::uuid[]) and (select count(*) from wanted) > 0
    order by organization_id for update
  ), slices as (
    delete from spent_slices
    where slot = $6::integer and organization_id = any($1::text::uuid[]) and (select count(*) from wanted) > 0
      and (select count(*) from mine) >= 0
    returning organization_id, minute, spent_microcents as spent
  ), locked as (
    select a.*, w.launch, w.least, w.extension, w.give_back, coalesce(m.granted, 0) as granted
    from accounts a
    join wanted w using (organization_id)
    left join mine m using (organization_id)
    order by a.organization_id
    for update of a
  ), dated as (
    select *, greatest(day, $8::date) as today, greatest(month, $9::date) as this_month,
      coalesce(new_until > $7::timestamptz, false) as is_new
    from locked
  ), spent as (
    select d.organization_id, coalesce(sum(s.spent), 0)::bigint as spent,
      coalesce(sum(s.spent) filter (where s.minute >= d.today::timestamptz), 0)::bigint as spent_today,
      coalesce(sum(s.spent) filter (where s.minute >= d.this_month::timestamptz), 0)::bigint as spent_this_month,
      coalesce(sum(s.spent) filter (where d.is_new and s.minute >= $10::timestamptz), 0)::bigint as spent_this_hour
    from dated d left join slices s using (organization_id) group by 1
  ), minutes_gone as (
    delete from account_minutes n using dated d
    where n.organization_id = d.organization_id and (not d.is_new or n.minute < $10::timestamptz)
    returning n.organization_id, n.spent_microcents as spent
  ), minutes_come as (
    insert into account_minutes as n (organization_id, minute, spent_microcents)
    select organization_id, s.minute, s.spent from slices s join dated d using (organization_id)
    where d.is_new and s.minute >= $10::timestamptz
    on conflict (organization_id, minute) do update set spent_microcents = n.spent_microcents + excluded.spent_microcents
  ), gone as (
    select organization_id, sum(spent)::bigint as spent from minutes_gone group by 1
  ), folded as (
    select d.*, d.balance_microcents - s.spent as balance,
      case when d.day = d.today then d.day_spent_microcents else 0 end + s.spent_today as day_spent,
      case when d.month = d.this_month then d.month_spent_microcents else 0 end + s.spent_this_month as month_spent,
      d.hour_spent_microcents - coalesce(g.spent, 0) + s.spent_this_hour as hour_spent,
      greatest(d.granted - s.spent - coalesce(d.give_back, 0), 0) as kept
    from dated d join spent s using (organization_id) left join gone g using (organization_id)
  ), judged as (
    select *, allotted_microcents - granted as elsewhere, allotted_microcents - granted + kept as allotted,
      enforcement <> 'notify_only' as is_capped, enforcement = 'stop_running' as is_stopping,
      nullif($12::bigint, 0) as low_balance
    from folded
  ), roomy as (
    select *, balance - allotted - held_microcents as room_balance,
      -- A process whose clock has not reached the account's day must not fill an old day from the room of the new one.
      case when is_capped and today > $8::date and daily_limit_microcents is not null then 0
        when is_capped then daily_limit_microcents - day_spent - allotted end as room_daily,
      case when is_capped then monthly_limit_microcents - month_spent - allotted end as room_monthly,
      case when is_new then $11::bigint - hour_spent - allotted end as room_new_account
    from judged
  ), granting as (
    select *, least(room_balance, room_daily, room_monthly, room_new_account) as room,
      least(room_balance, room_new_account, case when is_stopping then least(room_daily, room_monthly) end) as room_running,
      -- How far it is to where somebody must be told; null: nothing of the kind is ahead.
      least(case when told_below_microcents is null and balance >= low_balance then balance - low_balance end,
        case when not is_capped and day_spent < daily_limit_microcents then daily_limit_microcents - day_spent end,
        case when not is_capped and month_spent < monthly_limit_microcents then monthly_limit_microcents - month_spent end)
        - allotted as room_to_notice
    from roomy
  ), granted as (
    select *, greatest(
      -- A quarter of the room while that covers the need, so that refills are rare and others find room too; near the
      -- end, or when others recall, what is needed. Less than helps anyone is left to others, where there are others.
      -- No more than is needed is granted beyond where somebody must be told, so that it is seen here when it is spent.
      case when give_back is null and room / 4 >= launch + extension
          then least(room / 4, case when room_to_notice is not null then greatest(room_to_notice, launch + extension) end)
        when room >= least or elsewhere = 0 then least(launch + extension, room) else 0 end,
      least(extension, room_running), 0) as fresh
    from granting
  ), account as (
    update accounts a set balance_microcents = g.balance, allotted_microcents = g.allotted + g.fresh,
      day = g.today, day_spent_microcents = g.day_spent, month = g.this_month, month_spent_microcents = g.month_spent,
      hour_spent_microcents = g.hour_spent,
      told_below_microcents = coalesce(g.told_below_microcents, case when g.balance < g.low_balance then g.low_balance end)
    from granted g where a.organization_id = g.organization_id
  ), allotted as (
    insert into allotments as l (organization_id, slot, granted_microcents)
    select organization_id, $6::integer, kept + fresh from granted
    on conflict (organization_id, slot) do update set granted_microcents = excluded.granted_microcents
  ), late as (
    select distinct organization_id, date_bin('1 day', minute, 'epoch') as ended_day from slices s join granted g using (organization_id)
    where s.minute < g.today::timestamptz and s.minute >= g.today::timestamptz - interval '31 days'
      and coalesce(daily_limit_microcents, monthly_limit_microcents) is not null
  ), ended as (
    select 'daily' as kind, organization_id, ended_day as starts, ended_day + interval '1 day' as ends from late
    union
    select 'monthly', organization_id, date_trunc('month', ended_day, 'UTC'), date_trunc('month', ended_day, 'UTC') + interval '1 month'
    from late join granted using (organization_id) where ended_day < this_month::timestamptz
  ), reached as (
    select organization_id, 'daily' as kind, today::timestamptz as period, day_spent as amount,
      daily_limit_microcents as bound from granted
    union all
    select organization_id, 'monthly', this_month::timestamptz, month_spent, monthly_limit_microcents from granted
    union all
    select organization_id, 'new_account', today::timestamptz, hour_spent, $11::bigint from granted where is_new
    union all
    select e.organization_id, e.kind, e.starts, (select coalesce(sum(u.cost_microcents), 0)::bigint from usage_days u
        where u.organization_id = e.organization_id and u.day >= e.starts and u.day < e.ends),
      case when e.kind = 'daily' then daily_limit_microcents else monthly_limit_microcents end
    from ended e join granted using (organization_id)
  ), noticed as (
    insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at)
    select organization_id, kind, period, amount, bound, enforcement, $7::timestamptz
    from reached join granted using (organization_id) where amount >= bound
    union all
    select organization_id, 'low_balance', $7::timestamptz, balance, low_balance, enforcement, $7::timestamptz
    from granted where told_below_microcents is null and balance < low_balance
    on conflict do nothing returning organization_id
  )
  select organization_id, kept + fresh as granted, elsewhere, room_balance - fresh as room_balance,
    room_daily - fresh as room_daily, room_monthly - fresh as room_monthly, room_new_account - fresh as room_new_account,
    case when not is_stopping then null when day_spent >= daily_limit_microcents then 'daily'
      when month_spent >= monthly_limit_microcents then 'monthly' end as stopped,
    is_stopping as stops_running, today::timestamptz as day_start,
    coalesce(fresh > room_to_notice, false) as passes_notice, organization_id in (select organization_id from noticed) as noticed
  from granted`

/** Organizations for which a slot has an allotment or spent slices, at most `limit`, by id. */
export async function listOfSlot(db: Queryable, slot: number, limit: number): Promise<string[]> {
  const rows = await db.query<{ organization_id: string }>(
    `select organization_id from (
       select organization_id from allotments where slot = $1::integer
       union select organization_id from spent_slices where slot = $1::integer) as o
     order by organization_id limit $2::integer`,
    [slot, limit],
  )
  return rows.map((row) => row.organization_id)
}

/** Removes allotments of a slot that nothing is granted by. */
export async function deleteEmptyAllotments(db: Queryable, slot: number, organizations: string): Promise<void> {
  await db.query(
    `delete from allotments
     where slot = $1::integer and organization_id = any($2::text::uuid[]) and granted_microcents = 0`,
    [slot, organizations],
  )
}

export interface FiguresRow {
  readonly balance: bigint
  readonly reserved: bigint
  readonly held: bigint
  readonly day_spent: bigint
  readonly month_spent: bigint
  readonly hour_spent: bigint
  readonly is_new: boolean
  readonly daily_limit: bigint | null
  readonly monthly_limit: bigint | null
  readonly enforcement: 'stop_running' | 'block_launch' | 'notify_only'
  readonly auto_terminate_hours: number | null
}

/** An account with everything posted counted in, folded or not: one statement, so one state of the books. */
export async function selectFigures(
  db: Queryable,
  organizationId: string,
  now: { readonly at: string; readonly day: string; readonly month: string; readonly windowFrom: string },
): Promise<FiguresRow | null> {
  const rows = await db.query<FiguresRow>(
    `with slices as (
       select coalesce(sum(spent_microcents), 0)::bigint as spent,
         coalesce(sum(spent_microcents) filter (where minute >= $3::date::timestamptz), 0)::bigint as day,
         coalesce(sum(spent_microcents) filter (where minute >= $4::date::timestamptz), 0)::bigint as month,
         coalesce(sum(spent_microcents) filter (where minute >= $5::timestamptz), 0)::bigint as hour
       from spent_slices where organization_id = $1::uuid
     ), unspent as (
       select coalesce(sum(greatest(l.granted_microcents - coalesce(s.spent, 0), 0)), 0)::bigint as reserved
       from allotments l left join (select slot, sum(spent_microcents) as spent from spent_slices
         where organization_id = $1::uuid group by slot) s using (slot)
       where l.organization_id = $1::uuid
     ), minutes as (
       select coalesce(sum(spent_microcents), 0)::bigint as spent from account_minutes
       where organization_id = $1::uuid and minute >= $5::timestamptz
     )
     select a.balance_microcents - s.spent as balance, u.reserved, a.held_microcents as held,
       case when a.day = $3::date then a.day_spent_microcents else 0 end + s.day as day_spent,
       case when a.month = $4::date then a.month_spent_microcents else 0 end + s.month as month_spent,
       m.spent + s.hour as hour_spent, coalesce(a.new_until > $2::timestamptz, false) as is_new,
       a.daily_limit_microcents as daily_limit, a.monthly_limit_microcents as monthly_limit,
       a.enforcement, a.auto_terminate_hours
     from accounts a, slices s, unspent u, minutes m where a.organization_id = $1::uuid`,
    [organizationId, now.at, now.day, now.month, now.windowFrom],
  )
  return rows[0] ?? null
}

/**
 * Sets the spending limit. Null of `daily` leaves it, 0 clears it; null of `enforcement` leaves it; the hours are set
 * only where `setsHours`. False when there is no account.
 */
export async function updateLimit(
  db: Queryable,
  organizationId: string,
  change: {
    readonly monthly: bigint
    readonly daily: bigint | null
    readonly enforcement: string | null
    readonly setsHours: boolean
    readonly hours: number | null
  },
): Promise<boolean> {
  const rows = await db.query(
    `update accounts set monthly_limit_microcents = $2::bigint,
       daily_limit_microcents = nullif(coalesce($3::bigint, daily_limit_microcents), 0),
       enforcement = coalesce($4::text, enforcement),
       auto_terminate_hours = case when $5::boolean then $6::integer else auto_terminate_hours end
     where organization_id = $1::uuid returning organization_id`,
    [organizationId, change.monthly, change.daily, change.enforcement, change.setsHours, change.hours],
  )
  return rows.length === 1
}

/** Ends the cap of new organizations for one of them. */
export async function clearNewUntil(db: Queryable, organizationId: string): Promise<void> {
  await db.query('update accounts set new_until = null where organization_id = $1::uuid and new_until is not null', [
    organizationId,
  ])
}

/** Tells every process something about an organization. Never inside a transaction that changes money. */
export async function notify(db: Queryable, channel: string, payload: string): Promise<void> {
  await db.query('select pg_notify($1, $2)', [channel, payload])
}

/**
 * Notes that a limit refused a call, with what was spent: at most once for its period. True when this was the first
 * time. Of the cap of new organizations the period is the UTC day.
 */
export async function insertNotice(
  db: Queryable,
  notice: {
    readonly organizationId: string
    readonly kind: 'daily' | 'monthly' | 'new_account'
    readonly period: string
    readonly amountMicrocents: bigint
    readonly limitMicrocents: bigint
    readonly enforcement: string
    readonly at: string
  },
): Promise<boolean> {
  const rows = await db.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at)
     values ($1::uuid, $2, $3::date::timestamptz, $4::bigint, $5::bigint, $6, $7::timestamptz)
     on conflict do nothing returning kind`,
    [
      notice.organizationId,
      notice.kind,
      notice.period,
      notice.amountMicrocents,
      notice.limitMicrocents,
      notice.enforcement,
      notice.at,
    ],
  )
  return rows.length === 1
}
