/** Every statement that money makes, by the words that it is known by, and what it does to the books of the model. */

import { RENEWAL_PARAMETERS } from '../../../src/billing/admission/renewal/parameters.ts'
import type { RenewalParameters } from '../../../src/billing/admission/renewal/store.ts'
import type { AccountRow, Books } from './books.ts'
import { UntaughtStatement } from './errors.ts'
import { INSTANCE_STATEMENTS } from './instances.ts'
import { findServedModels, postCharges } from './postCharges.ts'
import { renew } from './renew.ts'
import type { View } from './tables.ts'
import type { Parameters } from './wire.ts'

const DAY_MS = 86_400_000
const NEW_FOR_MS = 7 * DAY_MS

export interface Statement {
  /** The words that only its text has, white space made one blank each. */
  readonly words: string
  /** Rows that it locks until its transaction ends. */
  locks?(parameters: Parameters): string[]
  run(view: View, books: Books, parameters: Parameters, text: string): unknown[]
}

const account = (id: string) => `account ${id}`
/** The position of a parameter of a renewal. */
const at = (name: keyof RenewalParameters) => RENEWAL_PARAMETERS.indexOf(name) + 1
const ofSlot = (slot: number) => `slot ${slot}`

const STATEMENTS: readonly Statement[] = [
  ...INSTANCE_STATEMENTS,
  {
    words: '), wanted as ( select * from unnest(',
    locks: (p) => [ofSlot(p.number(at('slot'))), ...p.list(at('organizations')).map((id) => account(id ?? ''))],
    run(view, books, p) {
      const slot = p.number(at('slot'))
      const takenAt = p.textOrNull(at('takenAt'))
      if (takenAt !== null && view.get(books.slots, `${slot}`)?.takenAtMs !== Date.parse(takenAt)) return []
      const [admissions, leasts] = [p.amounts(at('admissions')), p.amounts(at('leasts'))]
      const [extensions, givesBack] = [p.amounts(at('extensions')), p.amounts(at('givesBack'))]
      const wants = p.list(at('organizations')).map((id, index) => ({
        organizationId: id ?? '',
        admission: admissions[index] ?? 0n,
        least: leasts[index] ?? 0n,
        extension: extensions[index] ?? 0n,
        giveBack: givesBack[index] ?? null,
      }))
      const now = {
        atMs: p.instant(at('at')),
        day: p.text(at('day')),
        windowFromMs: p.instant(at('windowFrom')),
        // Where the statement reads the database's clock (`turnedDatabase.ts`).
        databaseMs: p.instant(RENEWAL_PARAMETERS.length + 1),
      }
      return renew(view, books, slot, wants, now, {
        newAccountCap: p.amount(at('newAccountCapMicrocents')),
        lowBalance: p.amount(at('lowBalanceMicrocents')),
      })
    },
  },
  {
    // The columns of plans too, where a charge is cut to its hold: no plan is offered here, so they are empty but for prices.
    words: 'insert into charges (admitted_at',
    locks: (p) => [ofSlot(p.number(13))],
    run: postCharges,
  },
  { words: 'insert into served_models', run: findServedModels },
  {
    words: 'select distinct organization_id from account_shares where slot',
    run(view, books, p) {
      const slot = p.number(1)
      const found = [...view.rows(books.shares), ...view.rows(books.unfoldedSpend)].filter(
        (row) => row.slot === slot && row.organizationId > p.text(3),
      )
      const ids = [...new Set(found.map((row) => row.organizationId))].sort()
      return ids.slice(0, p.number(2)).map((id) => ({ organization_id: id }))
    },
  },
  {
    words: 'select slot from processes p where exists',
    run(view, books) {
      const rows = [...view.rows(books.shares), ...view.rows(books.unfoldedSpend)]
      return [...new Set(rows.map((row) => row.slot))].map((slot) => ({ slot }))
    },
  },
  {
    words: 'select slot from account_shares where organization_id',
    run: (view, books, p) =>
      view
        .rows(books.shares)
        .filter((row) => row.organizationId === p.text(1) && row.slot !== p.number(2))
        .map(({ slot }) => ({ slot })),
  },
  {
    words: 'insert into ledger_entries',
    // The unique index makes a second one of the same source wait for the first.
    locks: (p) => [`entry ${p.text(5)}`],
    run(view, books, p) {
      const source = p.text(5)
      if (view.get(books.entries, source) !== undefined) return []
      view.put(books.entries, source, { organizationId: p.text(2), amount: p.amount(3), kind: p.text(4), source })
      return [{ id: p.text(1) }]
    },
  },
  {
    words: 'update accounts set balance_microcents = balance_microcents + $2',
    locks: (p) => [account(p.text(1))],
    run: (view, books, p) =>
      changeAccount(view, books, p.text(1), (row) => {
        const balance = row.balance + p.amount(2)
        return { balance, toldBelow: row.toldBelow !== null && balance < row.toldBelow ? row.toldBelow : null }
      }),
  },
  {
    words: 'update accounts a set monthly_limit_microcents = w.monthly',
    locks: (p) => [account(p.text(1))],
    run(view, books, p) {
      const before = view.get(books.accounts, p.text(1))
      changeAccount(view, books, p.text(1), (row) => {
        const daily = p.amountOrNull(3) ?? row.dailyLimit
        const hours = p.textOrNull(6)
        return {
          monthlyLimit: p.amount(2),
          dailyLimit: daily === 0n ? null : daily,
          enforcement: p.textOrNull(4) ?? row.enforcement,
          ...(p.text(5) === 'true' ? { autoTerminateHours: hours === null ? null : Number(hours) } : {}),
        }
      })
      const after = view.get(books.accounts, p.text(1))
      if (before === undefined || after === undefined) return []
      const limit = {
        monthly: after.monthlyLimit,
        daily: after.dailyLimit,
        enforcement: after.enforcement,
        hours: after.autoTerminateHours,
      }
      const was = {
        was_monthly: before.monthlyLimit,
        was_daily: before.dailyLimit,
        was_enforcement: before.enforcement,
        was_hours: before.autoTerminateHours,
      }
      return [{ ...limit, ...was }]
    },
  },
  {
    words: 'update accounts set new_until = null',
    locks: (p) => [account(p.text(1))],
    run: (view, books, p) => changeAccount(view, books, p.text(1), () => ({ newUntilMs: null })),
  },
  {
    words: 'insert into accounts (organization_id',
    run(view, books, p) {
      const organization = view.get(books.organizations, p.text(1))
      if (organization === undefined || view.get(books.accounts, p.text(1)) !== undefined) return []
      const isNew = organization.standing === 'new' && organization.firstPaidAtMs === null
      view.put(books.accounts, p.text(1), {
        ...EMPTY_ACCOUNT,
        organizationId: p.text(1),
        newUntilMs: isNew ? organization.createdAtMs + NEW_FOR_MS : null,
      })
      return []
    },
  },
  {
    words: 'insert into organizations (',
    run(view, books, p) {
      if (view.rows(books.organizations).some(({ name }) => name === p.text(2))) return []
      const made = { id: p.text(1), name: p.text(2), standing: p.text(3), createdAtMs: p.instant(4) }
      view.put(books.organizations, made.id, { ...made, firstPaidAtMs: null })
      return [{ id: made.id }]
    },
  },
  {
    words: 'update organizations set first_paid_at',
    locks: (p) => [`organization ${p.text(1)}`],
    run(view, books, p) {
      const row = view.get(books.organizations, p.text(1))
      if (row === undefined || row.firstPaidAtMs !== null) return []
      view.put(books.organizations, row.id, { ...row, firstPaidAtMs: p.instant(2) })
      return [{ id: row.id }]
    },
  },
  {
    // Processes here know organizations, and no keys that they would have to look up again.
    words: 'select pg_notify($1, encode(hash',
    run: () => [],
  },
  {
    words: 'select organization_id, cost_microcents as cost from charges where admitted_at',
    run(view, books, p) {
      const row = view.get(books.charges, `${p.text(2)}/${p.instant(1)}`)
      if (row === undefined) return []
      return [{ organization_id: row.organizationId, cost: row.cost }]
    },
  },
  {
    words: 'insert into dead_charges',
    run(view, books, p) {
      const { keyId } = JSON.parse(p.text(2)) as { keyId: string }
      if (view.get(books.dead, p.text(1)) === undefined) view.put(books.dead, p.text(1), { id: p.text(1), keyId })
      return []
    },
  },
  {
    words: 'alter table charges attach partition charges_',
    run(view, books, _, text) {
      const day = /from \('([\d-]+)T/.exec(text)?.[1] ?? ''
      view.put(books.partitions, day, day)
      return []
    },
  },
  {
    words: 'insert into price_versions',
    run: () => [],
  },
  {
    words: 'select slot from processes order by slot',
    run: (view, books) =>
      view
        .rows(books.slots)
        .map(({ slot }) => ({ slot }))
        .sort((one, other) => one.slot - other.slot),
  },
  {
    words: 'insert into processes',
    run(view, books, p) {
      const before = view.get(books.slots, p.text(1))
      const takenAtMs = Math.max(p.instant(2), (before?.takenAtMs ?? 0) + 1)
      view.put(books.slots, p.text(1), { slot: p.number(1), takenAtMs })
      return [{ started_at: new Date(takenAtMs), before: before === undefined ? null : new Date(before.takenAtMs) }]
    },
  },
]

const EMPTY_ACCOUNT: AccountRow = {
  organizationId: '',
  balance: 0n,
  granted: 0n,
  held: 0n,
  instancesHeld: 0n,
  burn: 0n,
  day: '1970-01-01',
  daySpent: 0n,
  month: '1970-01-01',
  monthSpent: 0n,
  newUntilMs: null,
  hourSpent: 0n,
  monthlyLimit: null,
  dailyLimit: null,
  enforcement: 'block_launch',
  autoTerminateHours: null,
  // An organization that never had any money is not told that there is none.
  toldBelow: 0n,
}

function changeAccount(
  view: View,
  books: Books,
  id: string,
  change: (row: AccountRow) => Partial<AccountRow>,
): { organization_id: string }[] {
  const row = view.get(books.accounts, id)
  if (row === undefined) return []
  view.put(books.accounts, id, { ...row, ...change(row) })
  return [{ organization_id: id }]
}

const known = new Map<string, Statement>()

/** The statement of a text. Throws for a text that the model has not been taught. */
export function statementOf(text: string): Statement {
  const found = known.get(text)
  if (found !== undefined) return found
  const plain = text.replaceAll(/\s+/g, ' ').trim()
  const matching = STATEMENTS.filter(({ words }) => plain.includes(words))
  const [only] = matching
  if (only === undefined || matching.length > 1) {
    const shown = `${matching.length} statements of the simulator's model are known by the words of: ${plain.slice(0, 160)}`
    throw new UntaughtStatement(`${shown} … Teach it in server/test/simulator/model/statements.ts.`)
  }
  known.set(text, only)
  return only
}
