/** The plan of a seed: the organizations and their money, the processes, and the troubles. */

import type { Enforcement } from '../../src/billing/admission/gates.ts'
import type { ResolvedModel } from '../../src/catalog/model.ts'
import type { RandomBytes } from '../../src/lib/ids.ts'
import { type Seeded, seeded } from '../faults/seeded.ts'
import { modelsAt, poisonedAt } from './script.ts'

/** About what a call of 1,000 tokens costs at the lowest scale. */
const USUAL_MICROCENTS = 1_500n

export interface OrganizationPlan {
  readonly creditMicrocents: bigint
  readonly isNew: boolean
  readonly limits: { readonly daily: bigint; readonly monthly: bigint; readonly enforcement: Enforcement } | null
}

/** How often each kind of trouble comes, at most. */
export interface Trouble {
  /** Of a hundred statements, how many never arrive or lose their answer. */
  readonly lostPercent: number
  readonly crashes: number
  readonly pauses: number
  readonly cuts: number
  readonly outages: number
  readonly jumps: number
  /** How often a clock is turned: the database's, and back, or the wall clock of a machine. */
  readonly turns: number
}

export interface Plan {
  readonly startMs: number
  readonly scale: bigint
  readonly processes: number
  /** Whether the clocks of machines differ, by as much as readiness allows. */
  readonly skewMs: number
  /** An organization whose balance falls below is told so; 0: none is. */
  readonly lowBalanceMicrocents: bigint
  readonly organizations: readonly OrganizationPlan[]
  readonly models: readonly ResolvedModel[]
  readonly poisoned: ResolvedModel | null
  readonly calls: number
  /** Instances that are rented beside the calls. */
  readonly rentals: number
  /** Processes look at accounts that refused a call a moment ago, before they ask them. */
  readonly looks: boolean
  readonly trouble: Trouble
  /** Credits, debits, refunds and changes of limits. */
  readonly changes: number
  /** Limits stop running calls, and are lowered and debited under them. */
  readonly stopsRunning: boolean
  /** Money is short, answers are whole, and clients often leave while the database is down: calls wait for money in vain then. */
  readonly leavesInOutages: boolean
  /** After a change that processes must heed, all that is under way has arrived by then: 2 s at most. */
  readonly arrivesWithinMs: number
}

const QUIET: Trouble = { lostPercent: 0, crashes: 0, pauses: 0, cuts: 0, outages: 0, jumps: 0, turns: 0 }

/** One kind of trouble a seed, so that each is met alone; then all of them together. Two of nine seeds have none. */
export const TROUBLES = ['none', 'clocks', 'none', 'losses', 'crashes', 'pauses', 'cuts', 'outages', 'all'] as const
export type TroubleName = (typeof TROUBLES)[number]

const TROUBLE: Readonly<Record<TroubleName, Trouble>> = {
  none: QUIET,
  clocks: { ...QUIET, turns: 5, jumps: 2 },
  losses: { ...QUIET, lostPercent: 15 },
  crashes: { ...QUIET, crashes: 3 },
  pauses: { ...QUIET, pauses: 3, cuts: 1 },
  cuts: { ...QUIET, cuts: 3 },
  outages: { ...QUIET, outages: 2 },
  all: { lostPercent: 5, crashes: 2, pauses: 2, cuts: 1, outages: 1, jumps: 1, turns: 0 },
}

export function planOf(seed: number): Plan {
  const random = seeded(seed * 2 + 1)
  const scale = random.pick([1n, 1_000n, 1_000_000n])
  const name = TROUBLES[seed % TROUBLES.length] ?? 'none'
  const trouble = TROUBLE[name]
  const poisons = random.percent(10)
  const plan = {
    startMs: random.percent(60) ? Date.UTC(2030, 0, 15, 11, 58) : Date.UTC(2030, 0, 31, 23, 59, random.between(30, 59)),
    scale,
    processes: random.between(2, 5),
    skewMs: random.percent(30) ? random.between(0, 900) : 0,
    lowBalanceMicrocents: random.percent(50) ? 2n * USUAL_MICROCENTS * scale : 0n,
    organizations: Array.from({ length: random.between(1, 3) }, () => organizationPlan(random, scale)),
    models: modelsAt(scale),
    poisoned: poisons ? poisonedAt(scale) : null,
    calls: random.between(12, 40),
    looks: [2, 5, 6, 7].includes(Math.floor(seed / TROUBLES.length) % 8),
    rentals: Math.floor(seed / TROUBLES.length) % 4 === 2 ? 2 + (seed % 4) : 0,
    trouble: { ...trouble, jumps: random.percent(10) ? 1 : trouble.jumps },
    changes: random.percent(50) ? random.between(1, 4) : 0,
    stopsRunning: false,
    leavesInOutages: name === 'outages' && Math.floor(seed / TROUBLES.length) % 2 === 1,
    arrivesWithinMs: random.pick([0, 20, 200, 2_000]),
  }
  if (plan.leavesInOutages) {
    return { ...plan, organizations: plan.organizations.map(() => shortPlan(random, scale)) }
  }
  // A minute that a clock has left is forgotten: no cap of an hour holds while the clock of the database is set to and fro.
  if (trouble.turns > 0)
    return { ...plan, organizations: plan.organizations.map((each) => ({ ...each, isNew: false })) }
  if (random.percent(75)) return plan
  const organizations = plan.organizations.map((each) => stoppedPlan(each, random, scale))
  return { ...plan, organizations, calls: random.between(20, 50), changes: random.between(10, 20), stopsRunning: true }
}

/** With money for so little that most calls hold one step, and ask for more as their answers go on. */
function shortPlan(random: Seeded, scale: bigint): OrganizationPlan {
  const creditMicrocents = (USUAL_MICROCENTS * scale * BigInt(random.between(10, 40))) / 10n
  return { creditMicrocents, isNew: false, limits: null }
}

/** With money and limits for some calls at once, so that each holds its worst case. */
function stoppedPlan({ isNew }: OrganizationPlan, random: Seeded, scale: bigint): OrganizationPlan {
  const times = (least: number, most: number) => USUAL_MICROCENTS * scale * BigInt(random.between(least, most))
  const limits = { monthly: times(6, 30), daily: 0n, enforcement: 'stop_running' } as const
  return { creditMicrocents: times(6, 30), isNew, limits }
}

function organizationPlan(random: Seeded, scale: bigint): OrganizationPlan {
  const usual = USUAL_MICROCENTS * scale
  const times = (least: number, most: number) => (usual * BigInt(random.between(least * 10, most * 10))) / 10n
  const credit = random.pick([times(1, 6), times(1, 6), times(6, 30), times(300, 900), 0n])
  const monthly = times(1, 20)
  return {
    creditMicrocents: credit,
    isNew: scale > 1_000n && random.percent(60),
    limits: random.percent(45)
      ? {
          monthly,
          daily: random.percent(60) ? (monthly * BigInt(random.between(20, 100))) / 100n : 0n,
          enforcement: random.pick(['stop_running', 'block_launch', 'notify_only']),
        }
      : null,
  }
}

/** Returns whether an organization has more than all calls can cost, nothing limits or changes it, and nothing goes wrong. */
export function isAmple({ organizations, scale, calls, changes, rentals, trouble }: Plan, index: number): boolean {
  const organization = organizations[index]
  if (organization === undefined || organization.isNew || organization.limits !== null || changes > 0 || rentals > 0)
    return false
  const isQuiet = Object.values(trouble).every((times) => times === 0)
  // Calls, and those that are made at the end by each process for each.
  const most = BigInt(calls + PROBES_MOST) * DEAREST_CALL_MICROCENTS * scale
  return isQuiet && organization.creditMicrocents > most
}

/** The most that a call which fills its context costs, at the lowest scale: `script.ts` has the prices. */
const DEAREST_CALL_MICROCENTS = 9_000n
const PROBES_MOST = 15

/** Bytes that a seed decides. */
export function randomBytesOf(seed: number): RandomBytes {
  const random = seeded(seed)
  return (length) => Uint8Array.from({ length }, () => random.between(0, 255))
}
