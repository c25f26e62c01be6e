/** Books with charges of many keys and models, and their usage held against the charges themselves. For tests of usage in groups. */

import { expect } from 'bun:test'
import type { Charge } from '../src/billing/charges/charge.ts'
import { bucketStart, type Window } from '../src/billing/usage/bucket.ts'
import {
  type GroupNames,
  parseGroupings,
  USAGE_GROUPINGS,
  type UsageGroup,
  type UsageGrouping,
  type UsageGroupings,
  type UsageSums,
} from '../src/billing/usage/groups/group.ts'
import { readUsageGroups } from '../src/billing/usage/groups/read.ts'
import { createUsageSummer } from '../src/billing/usage/groups/sums/sumUsage.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { toTimestamp } from '../src/lib/time.ts'
import { type Books, openBooks } from './books.ts'
import type { TurnedClock } from './clock.ts'

const MODELS = ['svc/a', 'svc/b', 'svc/image']
/** `svc/b` is in the catalog no more: its units tell. */
const MODALITIES = new Map([
  ['svc/a', 'chat'],
  ['svc/image', 'image'],
])
/** Keys in pairs: the first pair is the organization's, those behind it are of a member each, the last is in no table. */
export const USAGE_KEYS = Array.from({ length: 10 }, (_, index) => `00000000-0000-4000-8000-00000000000${index}`)
const MEMBER_IDS = ['aa', 'bb', 'cc'].map((end) => `00000000-0000-4000-8000-0000000000${end}`)

/** All that usage can be grouped by. */
export const ALL_GROUPINGS: readonly UsageGroupings[] = USAGE_GROUPINGS.flatMap((one) => [
  [one] as const,
  ...USAGE_GROUPINGS.flatMap((two) => {
    const pair = parseGroupings(`${one},${two}`)
    return pair === null ? [] : [pair]
  }),
])

/** Returns the member of a key as a name of groups. */
function memberOf(keyId: string): string {
  return MEMBER_IDS[Math.floor(USAGE_KEYS.indexOf(keyId) / 2) - 1] ?? ''
}

export type Random = (below: number) => number

/** A generator that a seed decides. */
export function randomOf(seed: number): Random {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

export const pick = <T>(random: Random, values: readonly T[]): T => values[random(values.length)] as T

function nameOf(grouping: UsageGrouping, charge: Charge): string {
  switch (grouping) {
    case 'model':
      return charge.model
    case 'key':
      return charge.keyId
    case 'member':
      return memberOf(charge.keyId)
    case 'tier':
      return charge.tier
    case 'modality':
      return MODALITIES.get(charge.model) ?? 'chat'
    default:
      return toTimestamp(bucketStart(grouping, charge.admittedAtMs))
  }
}

const NOTHING: UsageSums = {
  requests: 0n,
  promptTokens: 0n,
  cachedPromptTokens: 0n,
  completionTokens: 0n,
  imageCount: 0n,
  videoSeconds: 0n,
  costMicrocents: 0n,
}

/** Adds charges up. */
export function sumOf(charges: readonly Charge[]): UsageSums {
  return charges.reduce(
    (sums, { usage, images, costMicrocents }) => ({
      requests: sums.requests + 1n,
      promptTokens: sums.promptTokens + BigInt(usage.promptTokens),
      cachedPromptTokens: sums.cachedPromptTokens + BigInt(usage.cachedPromptTokens),
      completionTokens: sums.completionTokens + BigInt(usage.completionTokens),
      imageCount: sums.imageCount + BigInt(images?.count ?? 0),
      videoSeconds: 0n,
      costMicrocents: sums.costMicrocents + costMicrocents,
    }),
    NOTHING,
  )
}

/** The groups that the charges themselves make, in the order of their names. */
function groupsOf(charges: readonly Charge[], groupings: UsageGroupings): UsageGroup[] {
  const byName = Map.groupBy(charges, (charge) => JSON.stringify(groupings.map((each) => nameOf(each, charge))))
  return [...byName]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([names, members]) => ({ names: JSON.parse(names), ...sumOf(members) }))
}

export interface UsageBooks {
  readonly books: Books
  /** An organization that has {@link USAGE_KEYS}, with charges of none. */
  organization(): Promise<string>
  /** Posts a charge of any model, tier and key. */
  post(organizationId: string, random: Random, atMs: number): Promise<Charge>
  /** Sums the blocks of a window, as the background does, until it is stopped. */
  sum(organizationId: string, window: Window, isStopping?: () => boolean): Promise<void>
  /** Reads all pages of a question. */
  read(question: UsageQuestion): Promise<{ readonly total: UsageSums; readonly groups: readonly UsageGroup[] }>
  /** Throws unless all pages of a question, and the total, are what the charges make. */
  check(charges: readonly Charge[], question: UsageQuestion): Promise<void>
}

export interface UsageQuestion {
  readonly organizationId: string
  readonly groupings: UsageGroupings
  readonly window: Window
  /** Groups a page. */
  readonly limit: number
}

/** `dress` stands between the usage and its database. */
export async function openUsageBooks(
  clock: TurnedClock,
  dress: (database: Database) => Database = (database) => database,
): Promise<UsageBooks> {
  const books = await openBooks(clock)
  const database = dress(books.database)
  await addKeys(books)

  async function read({ limit, ...question }: UsageQuestion) {
    const groups: UsageGroup[] = []
    for (let after: GroupNames | null = null; ; ) {
      const page = await readUsageGroups(database, question, { after, limit: limit + 1 }, MODALITIES)
      groups.push(...page.groups.slice(0, limit))
      if (page.groups.length <= limit) return { total: page.total, groups }
      after = groups.at(-1)?.names ?? null
    }
  }

  return {
    books,
    read,
    async organization() {
      const organizationId = await books.organization(10n ** 12n)
      await books.database.query('update api_keys set organization_id = $1::uuid', [organizationId])
      return organizationId
    },
    post(organizationId, random, atMs) {
      const model = pick(random, MODELS)
      const images = { modality: 'image' as const, images: { count: 1 + random(3), pixels: 1_000 } }
      return books.post(organizationId, atMs, {
        model,
        tier: pick(random, ['serverless', 'economy'] as const),
        keyId: pick(random, USAGE_KEYS),
        ...(model === 'svc/image' ? images : {}),
      })
    },
    async sum(organizationId, window, isStopping = () => false) {
      const summer = createUsageSummer({ database, clock })
      summer.noteAsked(organizationId, window)
      await summer.run(isStopping)
    },
    async check(charges, question) {
      const { groupings, window } = question
      const within = charges.filter(({ admittedAtMs: at }) => at >= window.startMs && at < window.endMs)
      const { total, groups } = await read(question)
      expect(groups).toEqual(groupsOf(within, groupings))
      expect(total).toEqual(sumOf(within))
    },
  }
}

async function addKeys({ database, organization }: Books): Promise<void> {
  const owner = await organization(1n)
  for (const id of MEMBER_IDS) {
    await database.query(
      `insert into users (id, name, email, created_at, updated_at)
       values ($1::uuid, 'M', $1::uuid::text || '@example.org', now(), now())`,
      [id],
    )
    await database.query(
      "insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $1, 'member', now())",
      [id, owner],
    )
  }
  for (const key of USAGE_KEYS.slice(0, 8))
    await database.query(
      `insert into api_keys (id, organization_id, hash, scopes, admin, created_at, member_id)
       values ($1::uuid, $2, sha256(convert_to($1::uuid::text, 'utf8')), 'read_only', false, now(), nullif($3::text, '')::uuid)`,
      [key, owner, memberOf(key)],
    )
}
