/** Every query on shares and unfolded spend: the sums that grants are decided on. */

import type { Queryable, SqlParameter } from '../../../infra/postgres/database.ts'
import { CLOCKS_APART } from '../accounts/windows.ts'
import { INSTANCES_SLOT } from '../gates.ts'
import { PLACEHOLDERS as $, RENEWAL_PARAMETERS, type RenewalParameter } from './parameters.ts'

export type RenewalParameters = Readonly<Record<RenewalParameter, SqlParameter>>

export interface RenewedRow {
  readonly organization_id: string
  readonly granted: bigint
  readonly elsewhere: bigint
  readonly headroom_balance: bigint
  readonly headroom_daily: bigint | null
  readonly headroom_monthly: bigint | null
  readonly headroom_new_account: bigint | null
  readonly exhausted_limit: 'daily' | 'monthly' | null
  readonly stops_running: boolean
  readonly day_start: Date
  readonly passes_notice: boolean
  readonly noticed: boolean
  readonly is_day_mended: boolean
}

/**
 * Folds what a slot has spent into the accounts, takes what it gives back, and grants what it needs, for many
 * organizations at once. One statement, so that a process stopped in the middle keeps no row locked: the server ends it
 * alone. Returns a row for each organization that has an account; none where another process has taken the slot.
 */
export async function renewShareRows(db: Queryable, parameters: RenewalParameters): Promise<RenewedRow[]> {
  return db.query<RenewedRow>(
    RENEW,
    RENEWAL_PARAMETERS.map((name) => parameters[name]),
  )
}

/*
 * The statement, part by part, in the order in which the parts depend on each other.
 *
 * Locks are taken in one order by every renewal and fold, so that no two wait for each other: the slot, its shares, its unfolded
 * spend, then accounts, each by id. PostgreSQL is free to run the parts of one statement in any order. So a part that must come
 * after another one has a condition on its count, which can't be answered before that part is done.
 *
 * Up to LOCKED only locked rows are read. The parts after it compute, from one row for each account, and write.
 */

/**
 * The slot, if the caller's taking of it still stands; locked, so that a process that takes the slot waits for this statement, or
 * this one finds it taken by another.
 */
const TAKEN = `taken as (
    select slot from processes where slot = ${$.slot} and started_at = ${$.takenAt} for share
  )`

/** The slot's wants, a row for each organization; no row if another process has taken the slot: then nothing below does anything. */
const WANTED = `wanted as (
    select * from unnest(${$.organizations}, ${$.admissions}, ${$.leasts}, ${$.extensions},
      ${$.givesBack}) as w (organization_id, admission, least, extension, give_back)
    where ${$.takenAt} is null or (select count(*) from taken) > 0
  )`

/** The slot's shares, locked by id. After WANTED. An organization without a share has no row. */
const MINE = `mine as (
    select organization_id, granted_microcents as granted from account_shares
    where slot = ${$.slot} and organization_id = any(${$.organizations}) and (select count(*) from wanted) > 0
    order by organization_id for update
  )`

/** The spend of the slot that this statement folds: deleted here, so that nobody folds it twice. After MINE. */
const UNFOLDED = `unfolded as (
    delete from unfolded_spend
    where slot = ${$.slot} and organization_id = any(${$.organizations}) and (select count(*) from wanted) > 0
      and (select count(*) from mine) >= 0
    returning organization_id, minute, spent_microcents as spent
  )`

/**
 * The accounts, locked by id, with what is wanted and granted. After UNFOLDED. `is_first` is true where MINE has found no share. It
 * reads nothing but the account's row and what was locked before: when it has had to wait, PostgreSQL looks at that row again, and
 * at nothing else. Figures are made of it afterwards.
 */
const LOCKED = `locked as (
    select a.*, w.admission, w.least, w.extension, w.give_back, coalesce(m.granted, 0) as granted,
      m.granted is null as is_first
    from accounts a
    join wanted w using (organization_id)
    left join mine m using (organization_id)
    where (select count(*) from unfolded) >= 0
    order by a.organization_id
    for update of a
  )`

/**
 * The day and month that the account has reached, and whether it is new. They never go back to where a process is behind. But nothing may
 * lie beyond `horizon`: a day that begins after it was reached by a false clock, and the day is the database's own again (E20). The
 * database's clock is read here, once for each account and behind its lock: a renewal that this one has waited for saw an earlier instant.
 * No minute of the last hour lies beyond `last_minute`: while a process doubts the database's clock, it forgets none.
 */
const DATED = `dated as (
    select *, date_trunc('month', today)::date as this_month
    from (select *, case when reached_day > horizon then horizon - ${CLOCKS_APART} else reached_day end::date as today,
        greatest(horizon, ${$.at} + ${CLOCKS_APART}) as last_minute
      from (select *, clock_timestamp() + ${CLOCKS_APART} as horizon, greatest(day, ${$.day}) as reached_day,
          coalesce(new_until > ${$.at}, false) as is_new
        from locked) as seen) as placed
  )`

/** The condition for spend of a period: the day or month that begins at `start`. */
const WITHIN = (instant: string, start: string, period: 'day' | 'month') =>
  `${instant} >= ${start}::timestamptz and ${instant} < ${start}::timestamptz + interval '1 ${period}'`

/**
 * The charges of a period that are folded into the account `d`, added up anew, those that UNFOLDED has just taken among them. For an
 * account that comes to another day or month, or goes back to one: some of it may have been charged there before. A function reads them,
 * because this statement sees nothing that was committed while it waited for the account, such as another renewal's fold.
 */
const FOLDED_IN = (start: string, period: 'day' | 'month') =>
  `folded_spend(d.organization_id, ${start}::timestamptz, ${start}::timestamptz + interval '1 ${period}')`

/**
 * True when the spend of the slot counts to the hour of new accounts: that of instances does not, since the cap
 * counts the burn.
 */
const COUNTS_FOR_CAP = `${$.slot} <> ${INSTANCES_SLOT}`

/** The folded spend of each account: all of it, and of the day, the month and, for a new one, the hour. Zeros where there is none. */
const SPENT = `spent as (
    select d.organization_id, coalesce(sum(s.spent), 0)::bigint as spent,
      coalesce(sum(s.spent) filter (where ${WITHIN('s.minute', 'd.today', 'day')}), 0)::bigint as spent_today,
      coalesce(sum(s.spent) filter (where ${WITHIN('s.minute', 'd.this_month', 'month')}), 0)::bigint as spent_this_month,
      coalesce(sum(s.spent) filter (where d.is_new and ${COUNTS_FOR_CAP} and s.minute >= ${$.windowFrom} and s.minute <= d.last_minute), 0)::bigint
        as spent_this_hour
    from dated d left join unfolded s using (organization_id) group by 1
  )`

/** The minutes that have left the hour of a new account, or are yet to come, deleted; of an account that is new no more, all of them. */
const MINUTES_GONE = `minutes_gone as (
    delete from account_minutes n using dated d
    where n.organization_id = d.organization_id and (not d.is_new or n.minute < ${$.windowFrom} or n.minute > d.last_minute)
    returning n.organization_id, n.spent_microcents as spent
  )`

/** Adds the folded spend to the minutes of new accounts. It can't meet MINUTES_GONE: that takes only minutes outside of the hour. */
const MINUTES_COME = `minutes_come as (
    insert into account_minutes as n (organization_id, minute, spent_microcents)
    select organization_id, s.minute, s.spent from unfolded s join dated d using (organization_id)
    where d.is_new and ${COUNTS_FOR_CAP} and s.minute >= ${$.windowFrom} and s.minute <= d.last_minute
    on conflict (organization_id, minute) do update set spent_microcents = n.spent_microcents + excluded.spent_microcents
  )`

/** The spend that has left the hour, by account. */
const GONE = `gone as (
    select organization_id, sum(spent)::bigint as spent from minutes_gone group by 1
  )`

/** The account's figures with the folded spend counted in, and `kept`: the rest of the slot's share. */
const FOLDED = `folded as (
    select d.*, d.balance_microcents - s.spent as balance,
      case when d.day = d.today then d.day_spent_microcents + s.spent_today else ${FOLDED_IN('d.today', 'day')} end as day_spent,
      case when d.month = d.this_month then d.month_spent_microcents + s.spent_this_month
        else ${FOLDED_IN('d.this_month', 'month')} end as month_spent,
      d.hour_spent_microcents - coalesce(g.spent, 0) + s.spent_this_hour as hour_spent,
      greatest(d.granted - s.spent - coalesce(d.give_back, 0), 0) as kept
    from dated d join spent s using (organization_id) left join gone g using (organization_id)
  )`

/**
 * The amounts that are granted: `elsewhere` to other slots, `shares` to all. `stoppable` is the hold of instances, where reaching a limit stops
 * them. The enforcement, as conditions.
 */
const JUDGED = `judged as (
    select *, shares_microcents - granted as elsewhere, shares_microcents - granted + kept as shares,
      enforcement <> 'notify_only' as is_limited, enforcement = 'stop_running' as is_stopping,
      case when enforcement = 'stop_running' then instances_held_microcents else 0 end as stoppable,
      nullif(${$.lowBalanceMicrocents}, 0) as low_balance
    from folded
  )`

/**
 * The headroom of each gate, beside all that is granted: `headroomOf` of `gates.ts`, said in SQL. A process that counts another day or month
 * than the account must not fill its own from the headroom of the account's, but see where the limit of that is passed.
 */
const MEASURED = `measured as (
    select *, balance - shares - held_microcents as headroom_balance,
      case when is_limited then least(daily_limit_microcents - day_spent - shares - stoppable,
        case when today <> ${$.day} and daily_limit_microcents is not null then 0 end) end as headroom_daily,
      case when is_limited then least(monthly_limit_microcents - month_spent - shares - stoppable,
        case when this_month <> date_trunc('month', ${$.day}) and monthly_limit_microcents is not null then 0 end) end as headroom_monthly,
      case when is_new then ${$.newAccountCapMicrocents} - hour_spent - shares - burn_microcents end as headroom_new_account
    from judged
  )`

/**
 * The least headroom for new calls, and for running ones, which the customer's limits bind only where they stop them. And how far
 * it is to where somebody must be told or auto-pay begins; null: nothing of the kind is ahead.
 */
const GRANTING = `granting as (
    select *, least(headroom_balance, headroom_daily, headroom_monthly, headroom_new_account) as headroom,
      least(headroom_balance, headroom_new_account, case when is_stopping then least(headroom_daily, headroom_monthly) end) as headroom_running,
      least(case when told_below_microcents is null and balance >= low_balance then balance - low_balance end,
        case when balance >= auto_pay_threshold_microcents then balance - auto_pay_threshold_microcents end,
        case when not is_limited and day_spent < daily_limit_microcents then daily_limit_microcents - day_spent end,
        case when not is_limited and month_spent < monthly_limit_microcents then monthly_limit_microcents - month_spent end)
        - shares as headroom_to_notice
    from measured
  )`

/** The parts into which headroom is divided: the slots that were ever taken, or the least or most that is divided into. */
const SLOTS = `select greatest(4, count(*)) as slots, greatest(4, least(16, count(*))) as parts from processes`

/**
 * The decision, `fresh`: the amount that is granted now. A portion while that covers the need, so that renewals are rare and others
 * find some too: an equal part of all that processes may spend, but no more than a quarter of what is left. Were it always a quarter,
 * 16 processes would leave a hundredth for the next call of each. Near the end, or when others reclaim, what is needed. Less than helps
 * anyone is left to others, where there are others. No more than is needed is granted beyond where somebody must be told, so that it is
 * seen here when it is spent.
 */
const GRANTED = `granted as (
    select *, greatest(
      case when give_back is null and portion >= admission + extension
          then least(portion, case when headroom_to_notice is not null then greatest(headroom_to_notice, admission + extension) end)
        when headroom >= least or elsewhere = 0 then least(admission + extension, headroom) else 0 end,
      least(extension, headroom_running), 0) as fresh
    from (select *, greatest(headroom / parts, least(headroom / 4, (headroom + elsewhere) / slots)) as portion
      from granting, (${SLOTS}) as counted) as portioned
  )`

/**
 * Writes the figures and the grant to the account, which LOCKED has locked, and the job of auto-pay where the balance is below its
 * threshold (B5).
 */
const ACCOUNT = `account as (
    update accounts a set balance_microcents = g.balance, shares_microcents = g.shares + g.fresh,
      day = g.today, day_spent_microcents = g.day_spent, month = g.this_month, month_spent_microcents = g.month_spent,
      hour_spent_microcents = g.hour_spent,
      told_below_microcents = coalesce(g.told_below_microcents, case when g.balance < g.low_balance then g.low_balance end),
      auto_pay_due_at = coalesce(g.auto_pay_due_at, case when g.balance < g.auto_pay_threshold_microcents then ${$.at} end)
    from granted g where a.organization_id = g.organization_id
  )`

/** Writes the share, which MINE has locked. */
const RENEWED = `renewed as (
    update account_shares l set granted_microcents = g.kept + g.fresh
    from granted g where l.organization_id = g.organization_id and l.slot = ${$.slot} and not g.is_first and g.kept + g.fresh > 0
  )`

/** Deletes a share of nothing, so that a slot has rows for the accounts in use alone. */
const EMPTIED = `emptied as (
    delete from account_shares l using granted g
    where l.organization_id = g.organization_id and l.slot = ${$.slot} and not g.is_first and g.kept + g.fresh = 0
  )`

/**
 * Inserts the share of an organization that had none. Another renewal of the slot may have inserted the row after this statement began:
 * the server runs a renewal to its end although its connection has broken, and the process asks again meanwhile. Then MINE has seen
 * no row, and ACCOUNT adds this grant to the earlier one; so this part adds it too.
 */
const FIRST = `first as (
    insert into account_shares as l (organization_id, slot, granted_microcents)
    select organization_id, ${$.slot}, kept + fresh from granted where is_first and kept + fresh > 0
    on conflict (organization_id, slot) do update set granted_microcents = l.granted_microcents + excluded.granted_microcents
  )`

/** Past days whose spend this statement folded, for accounts with a limit. Nobody is told of a day that is over for more than 31 days. */
const LATE = `late as (
    select distinct organization_id, date_bin('1 day', minute, 'epoch') as ended_day from unfolded s join granted g using (organization_id)
    where s.minute < g.today::timestamptz and s.minute >= g.today::timestamptz - interval '31 days'
      and coalesce(daily_limit_microcents, monthly_limit_microcents) is not null
  )`

/** The periods that these days belong to: each day, and its month where that is over too. */
const ENDED = `ended as (
    select 'daily' as kind, organization_id, ended_day as starts, ended_day + interval '1 day' as ends from late
    union
    select 'monthly', organization_id, date_trunc('month', ended_day, 'UTC'), date_trunc('month', ended_day, 'UTC') + interval '1 month'
    from late join granted using (organization_id) where ended_day < this_month::timestamptz
  )`

/**
 * The figures for notices: the spend of each period, and its limit or cap. A period that is over is added up from
 * `usage_days`, which count every charge as it is posted: the renewal that folds the last of it sees all of it. `coming` is the part
 * of such a period that no renewal has folded before; null for the others. Without it the limit was reached before: that
 * was told then, or the limit was set after the period (decision 0163).
 */
const REACHED = `reached as (
    select organization_id, 'daily' as kind, today::timestamptz as period, day_spent as amount,
      daily_limit_microcents as bound, null::numeric as coming from granted
    union all
    select organization_id, 'monthly', this_month::timestamptz, month_spent, monthly_limit_microcents, null from granted
    union all
    select organization_id, 'new_account', today::timestamptz, hour_spent, ${$.newAccountCapMicrocents}, null from granted where is_new
    union all
    select e.organization_id, e.kind, e.starts, (select coalesce(sum(u.cost_microcents), 0)::bigint from usage_days u
        where u.organization_id = e.organization_id and u.day >= e.starts and u.day < e.ends),
      case when e.kind = 'daily' then daily_limit_microcents else monthly_limit_microcents end,
      (select coalesce(sum(s.spent_microcents), 0) from unfolded_spend s
        where s.organization_id = e.organization_id and s.minute >= e.starts and s.minute < e.ends)
    from ended e join granted using (organization_id)
  )`

/** Notes a limit that is reached and a balance that is low. The key of a row decides that each is told once. */
const NOTICED = `noticed as (
    insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at)
    select organization_id, kind, period, amount, bound, enforcement, ${$.at}
    from reached join granted using (organization_id) where amount >= bound and (coming is null or amount - coming < bound)
    union all
    select organization_id, 'low_balance', ${$.at}, balance, low_balance, enforcement, ${$.at}
    from granted where told_below_microcents is null and balance < low_balance
    on conflict do nothing returning organization_id
  )`

/** The answer, with what the gates leave after the grant. */
const ANSWER = `
  select organization_id, kept + fresh as granted, elsewhere, headroom_balance - fresh as headroom_balance,
    headroom_daily - fresh as headroom_daily, headroom_monthly - fresh as headroom_monthly, headroom_new_account - fresh as headroom_new_account,
    case when not is_stopping then null when day_spent >= daily_limit_microcents then 'daily'
      when month_spent >= monthly_limit_microcents then 'monthly' end as exhausted_limit,
    is_stopping as stops_running, today::timestamptz as day_start,
    coalesce(fresh > headroom_to_notice, false) as passes_notice, organization_id in (select organization_id from noticed) as noticed,
    day > today as is_day_mended
  from granted`

const LOCKING = [TAKEN, WANTED, MINE, UNFOLDED, LOCKED]
const FOLDING = [DATED, SPENT, MINUTES_GONE, MINUTES_COME, GONE, FOLDED]
const DECIDING = [JUDGED, MEASURED, GRANTING, GRANTED]
const WRITING = [ACCOUNT, RENEWED, EMPTIED, FIRST, LATE, ENDED, REACHED, NOTICED]

const RENEW = `
  with ${[...LOCKING, ...FOLDING, ...DECIDING, ...WRITING].join(', ')}${ANSWER}`
