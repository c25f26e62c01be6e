/**
 * The model against PostgreSQL: the same statements in the same order must give the same answers and the same books. A
 * change of a statement that the model was not taught shows here.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFigures } from '../../src/billing/admission/accounts/figures.ts'
import { setLimit } from '../../src/billing/admission/accounts/limit.ts'
import {
  endInstanceHold,
  extendInstanceHold,
  type InstanceHold,
  placeInstanceHold,
  shrinkInstanceHold,
} from '../../src/billing/admission/holds/instanceHold.ts'
import { renewShares } from '../../src/billing/admission/renewal/renew.ts'
import { foldSlot } from '../../src/billing/admission/slots/foldSlot.ts'
import type { Want } from '../../src/billing/admission/wants.ts'
import type { Charge } from '../../src/billing/charges/charge.ts'
import { ensureChargePartition } from '../../src/billing/charges/partitions/prepare.ts'
import { postCharges } from '../../src/billing/charges/post.ts'
import { refundCharge } from '../../src/billing/charges/refund.ts'
import { postInstanceCharges } from '../../src/billing/charges/settleInstance.ts'
import { insertDeadCharge } from '../../src/billing/charges/store.ts'
import { adjustBalance } from '../../src/billing/ledger/adjust.ts'
import { grantCredit } from '../../src/billing/ledger/grantCredit.ts'
import type { Database, Transaction } from '../../src/infra/postgres/database.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { listSlots, takeSlot } from '../../src/processes/store.ts'
import { type Seeded, seeded } from '../faults/seeded.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import type { Engine, Snapshot } from './engine.ts'
import { ModelEngine } from './model/modelEngine.ts'
import { randomBytesOf } from './plan.ts'
import { PostgresEngine } from './postgresEngine.ts'
import { directDatabase, makeOrganizations } from './setUp.ts'
import { WRITER_ERRORS } from './writerErrors.ts'

const SEQUENCES = 10
/** In seconds. */
const HOUR = 3_600
const OPERATIONS = 40
const START_MS = Date.UTC(2030, 0, 31, 20)
const MODEL_NAMES = ['svc/even', 'svc/quote"back\\slash', 'svc/poi\0son'] as const

let fresh: FreshDatabase
let postgres: PostgresEngine
beforeAll(async () => {
  fresh = await freshDatabase()
  postgres = new PostgresEngine(fresh.url)
})
afterAll(async () => {
  await postgres.close()
  await fresh.drop()
})

/** One thing to do, with all that it needs decided. */
interface Operation {
  readonly name: string
  readonly perform: (database: Database) => Promise<unknown>
}

class Sequence {
  private readonly random: Seeded
  private readonly seed: number
  private readonly organizations: readonly string[]
  private readonly posted: string[] = []
  private readonly rented = new Map<string, { readonly hold: InstanceHold; readonly hour: bigint }>()
  private nowMs = START_MS
  private made = 0

  constructor(seed: number, organizations: readonly string[]) {
    this.seed = seed
    this.random = seeded(seed)
    this.organizations = organizations
  }

  /** The next operation, and the database's clock: mostly that of the process, at times one that was set. */
  next(): Operation & { readonly databaseMs: number } {
    const { random } = this
    this.made += 1
    this.nowMs += random.pick([0, 1_000, 1_000, MINUTE_MS, 20 * MINUTE_MS, 3 * HOUR_MS])
    const aheadMs = random.percent(70)
      ? 0
      : random.pick([2, -4, -6, -20 * HOUR, 20 * HOUR, -25 * HOUR, -40 * 24 * HOUR])
    const operation = random.pick([
      () => this.renew(),
      () => this.renew(),
      () => this.renew(),
      () => this.post(),
      () => this.post(),
      () => this.post(),
      () => this.fold(),
      () => this.movement(),
      () => this.limit(),
      () => this.slot(),
      () => this.refund(),
      () => this.rental(),
      () => this.rental(),
      () => this.figures(),
    ])()
    return { ...operation, databaseMs: this.nowMs + aheadMs * 1_000 }
  }

  private organization(): string {
    return this.organizations[this.random.between(0, this.organizations.length - 1)] ?? ''
  }

  private amount(most: number): bigint {
    return BigInt(this.random.between(0, most)) * this.random.pick([1n, 1n, 100_000n])
  }

  private renew(): Operation {
    const { random } = this
    const nowMs = this.nowMs - random.pick([0, 0, 0, DAY_MS])
    const wants = new Map<string, Want>()
    for (const id of this.organizations) {
      if (random.percent(40)) continue
      const admission = random.percent(70) ? this.amount(3_000) : 0n
      const giveBack = random.percent(25) ? this.amount(2_000) : null
      wants.set(id, {
        admission,
        least: admission / 2n,
        extension: random.percent(40) ? this.amount(2_000) : 0n,
        giveBack,
      })
    }
    const [slot, takenAtMs] = [random.between(0, 2), random.pick([null, null, START_MS, START_MS + 1])]
    const low = random.pick([0n, 3_000n])
    return {
      name: 'renewal',
      perform: async (database) => {
        const renewed = await renewShares(database, slot, wants, nowMs, low, takenAtMs)
        return renewed.sort((one, other) => (one.organizationId < other.organizationId ? -1 : 1))
      },
    }
  }

  private post(): Operation {
    const { random } = this
    const slot = random.between(0, 2)
    const charges = Array.from({ length: random.between(1, 5) }, () => this.charge())
    const isPrepared = random.percent(90)
    return {
      name: 'post',
      perform: async (database) => {
        for (const { admittedAtMs } of charges) if (isPrepared) await ensureChargePartition(database, admittedAtMs)
        await postCharges(database, slot, charges, this.nowMs)
      },
    }
  }

  private charge(): Charge {
    const { random } = this
    const again = this.posted[random.between(0, this.posted.length)]
    const admittedAtMs = this.nowMs - random.pick([0, 0, 5_000, 2 * HOUR_MS, DAY_MS])
    const chargeId = again ?? `00000000-0000-7000-8000-${String(this.made * 10 + this.posted.length).padStart(12, '0')}`
    this.posted.push(chargeId)
    const costMicrocents = this.amount(1_500)
    return {
      chargeId,
      admittedAtMs,
      organizationId: this.organization(),
      keyId: '00000000-0000-4000-8000-000000000001',
      model: random.percent(4) ? MODEL_NAMES[2] : random.pick([MODEL_NAMES[0], MODEL_NAMES[1]]),
      tier: 'serverless',
      priceHash: new Uint8Array(32),
      usage: { promptTokens: 3, cachedPromptTokens: 1, completionTokens: 2 },
      estimated: false,
      costMicrocents,
      ...(random.percent(20) ? { listMicrocents: costMicrocents + 1n } : {}),
      target: 'mock/test',
      outcome: 'completed',
    }
  }

  /** Money is held for an instance, or more of it, or some of it is charged, or the rest is given back. */
  private rental(): Operation {
    const { random, nowMs } = this
    const [more, hour] = [this.amount(1_000), this.amount(200)]
    const chosen = [...this.rented.values()][random.between(0, this.rented.size)]
    if (chosen === undefined) {
      const id = `00000000-0000-7000-8000-${String(this.made).padStart(12, 'a')}`
      const hold = { id, organizationId: this.organization(), microcents: more }
      return this.holding('place', { hold, hour }, (tx) => placeInstanceHold(tx, hold, hour, nowMs))
    }
    const { hold } = chosen
    const part = hold.microcents === 0n ? 0n : more % (hold.microcents + 1n)
    return random.pick([
      () => {
        const extended = { ...chosen, hold: { ...hold, microcents: hold.microcents + more } }
        return this.holding('extend', extended, (tx) => extendInstanceHold(tx, hold, more, nowMs))
      },
      () => this.billing(chosen, part),
      () => {
        this.rented.delete(hold.id)
        return {
          name: 'end',
          perform: (db: Database) => db.transaction((tx) => endInstanceHold(tx, hold, chosen.hour)),
        }
      },
    ])()
  }

  /** The hold counts as it is then where a gate lets it. */
  private holding(
    name: string,
    then: { readonly hold: InstanceHold; readonly hour: bigint },
    perform: (tx: Transaction) => Promise<boolean>,
  ): Operation {
    return {
      name,
      perform: async (database) => {
        const isHeld = await database.transaction(perform)
        if (isHeld) this.rented.set(then.hold.id, then)
        return isHeld
      },
    }
  }

  private billing({ hold, hour }: { readonly hold: InstanceHold; readonly hour: bigint }, part: bigint): Operation {
    const { nowMs } = this
    const { organizationId, id: instanceId } = hold
    const instance = { instanceId, gpuType: 'h100', gpuCount: 1, fromSecond: 0, seconds: 60 }
    const charge = { ...this.charge(), organizationId, costMicrocents: part, modality: 'instance' as const, instance }
    this.rented.set(instanceId, { hold: { ...hold, microcents: hold.microcents - part }, hour })
    return {
      name: 'bill',
      perform: async (database) => {
        await ensureChargePartition(database, charge.admittedAtMs)
        return await database.transaction(async (tx) => {
          await shrinkInstanceHold(tx, hold, part)
          return await postInstanceCharges(tx, organizationId, [charge], nowMs, 3_000n)
        })
      },
    }
  }

  private figures(): Operation {
    const organizationId = this.organization()
    const nowMs = this.nowMs - this.random.pick([0, 0, DAY_MS])
    return { name: 'figures', perform: (database) => readFigures(database, organizationId, nowMs) }
  }

  private fold(): Operation {
    const slot = this.random.between(0, 2)
    const takenAtMs = this.random.pick([null, null, START_MS])
    const { nowMs } = this
    return {
      name: 'fold',
      perform: (db) => db.transaction((tx) => foldSlot(tx, slot, nowMs, { lowBalanceMicrocents: 3_000n, takenAtMs })),
    }
  }

  private movement(): Operation {
    const [organizationId, amount, source] = [
      this.organization(),
      this.amount(20_000) + 1n,
      `m:${this.random.between(1, 12)}`,
    ]
    const [isCredit, isPayment, atMs] = [this.random.percent(70), this.random.percent(30), this.nowMs]
    const bytes = this.seed * 1_000 + this.made
    return {
      name: 'movement',
      perform: (database) =>
        isCredit
          ? database.transaction((tx) =>
              grantCredit(tx, randomBytesOf(bytes), {
                organizationId,
                amountMicrocents: amount,
                source,
                note: null,
                isPayment,
                atMs,
              }),
            )
          : adjustBalance(database, randomBytesOf(bytes), {
              organizationId,
              amountMicrocents: -amount,
              source,
              note: 'less',
              atMs,
            }),
    }
  }

  private limit(): Operation {
    const { random } = this
    const organizationId = random.percent(90) ? this.organization() : '00000000-0000-4000-8000-00000000dead'
    const change = {
      monthlyMicrocents: this.amount(20_000) + 1n,
      dailyMicrocents: random.pick([undefined, 0n, this.amount(9_000) + 1n]),
      enforcement: random.pick([undefined, 'stop_running', 'block_launch', 'notify_only'] as const),
      autoTerminateHours: random.pick([undefined, null, 12]),
    }
    return { name: 'limit', perform: (database) => setLimit(database, organizationId, change) }
  }

  private slot(): Operation {
    const slot = this.random.between(0, 2)
    const atMs = START_MS - this.random.between(0, 1)
    return { name: 'slot', perform: async (db) => [await takeSlot(db, slot, atMs), await listSlots(db)] }
  }

  private refund(): Operation {
    const chargeId = this.posted[this.random.between(0, this.posted.length)] ?? '00000000-0000-7000-8000-000000000000'
    const bytes = this.seed * 1_000 + this.made
    if (this.random.percent(20)) {
      const charge = this.charge()
      return { name: 'dead charge', perform: (database) => insertDeadCharge(database, charge, 'no reason', this.nowMs) }
    }
    const refund = { chargeId, amountMicrocents: null, note: null, atMs: this.nowMs }
    return { name: 'refund', perform: (database) => refundCharge(database, randomBytesOf(bytes), refund) }
  }
}

/** Returns the answer of an operation, or the kind of its refusal. */
async function outcome(engine: Engine, { perform, databaseMs }: ReturnType<Sequence['next']>): Promise<unknown> {
  return await perform(directDatabase(engine, databaseMs)).catch(
    (error: unknown) => `refused data: ${WRITER_ERRORS.isRefusedData(error)}`,
  )
}

/** In one order, without what has become nothing. */
function ordered({ accounts, shares, unfoldedSpend, entries, charges, holds, deadKeyIds }: Snapshot): unknown {
  const sorted = (rows: readonly object[]) => rows.map((row) => Bun.inspect(row, { sorted: true })).sort()
  return {
    accounts: sorted(accounts),
    shares: sorted(shares),
    unfoldedSpend: sorted(unfoldedSpend),
    entries: sorted(entries),
    charges: sorted(charges),
    holds: sorted(holds),
    dead: [...deadKeyIds].sort(),
  }
}

test('the model answers as PostgreSQL does, statement after statement', async () => {
  for (let seed = 1; seed <= SEQUENCES; seed += 1) {
    await postgres.reset()
    const model = new ModelEngine()
    const plans = [true, false, false].map((isNew) => ({ creditMicrocents: 10_000n, isNew, limits: null }))
    const clock = { now: () => START_MS, monotonicMs: () => 0, after: () => () => {} }
    const [organizations] = await Promise.all(
      [model, postgres].map((engine) => makeOrganizations(engine, clock, randomBytesOf(seed), plans)),
    )
    const sequence = new Sequence(seed, organizations ?? [])
    for (let step = 1; step <= OPERATIONS; step += 1) {
      const operation = sequence.next()
      const where = `seed ${seed}, step ${step}: ${operation.name}`
      const expected = await outcome(postgres, operation)
      expect({ where, answer: await outcome(model, operation) }).toEqual({ where, answer: expected })
      expect({ where, books: ordered(model.snapshot()) }).toEqual({ where, books: ordered(await postgres.snapshot()) })
    }
  }
  console.log(`seeds: ${SEQUENCES} of the model beside PostgreSQL`)
}, 120_000)
