/**
 * Preflight against reality: for each generated state of plan, quota, balance and limits, on a real database, what preflight
 * says of a call and what becomes of that call. An endpoint that comes is a row of ENDPOINTS.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { findImbalances } from '../src/billing/charges/store.ts'
import { type AskedGateway, openAskedGateway } from './acceptance/ask.ts'
import { directed } from './acceptance/catalog.ts'
import type { TestKey } from './customer.ts'
import { seeded } from './faults/seeded.ts'
import { allStates, type State, setUpStates } from './preflightStates.ts'
import { SlowClock } from './slowClock.ts'

const model = (id: string, more = '') => `
  - id: svc/${id}
    aliases: [${id}]
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]${more}`
const ECONOMY = `
    economy:
      pricing: { input_per_1m_tokens_cents: 50, output_per_1m_tokens_cents: 100 }
      targets: [{ provider: sandbox, model: sandbox }]`
const SETTINGS = `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:${model('within', `\n    plan_covered: true${ECONOMY}`)}${model('outside', ECONOMY)}
  - id: svc/free
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 0 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/within-words
    modality: embedding
    context_length: 512
    plan_covered: true
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox }]
  - id: svc/words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox }]
  - id: svc/within-picture
    modality: image
    plan_covered: true
    pricing: { per_image_cents: 2 }
    targets: [{ provider: sandbox }]
  - id: svc/picture
    modality: image
    pricing: { per_mpxl_microcents: 50000000 }
    parameters: [{ name: size, type: enum, enum: ["8x8"], default: "8x8" }]
    targets: [{ provider: sandbox }]
  - id: svc/film
    aliases: [film]
    modality: video
    pricing: { per_video_second_cents: 2 }
    parameters: [{ name: seconds, type: int, max: 4, default: 2 }]
    targets: [{ provider: sandbox }]
plans:
  - key: small
    name: Small
    input_tokens_monthly: 100
    output_tokens_monthly: 100
    weekly_tokens: 150
    max_usage_cents: 100
`

interface Endpoint {
  readonly name: string
  /** As they are called, and whether a plan is for them. */
  readonly models: readonly (readonly [name: string, isWithin: boolean])[]
  /** It meets the balance, and no limit. */
  readonly isVideo?: boolean
  /** It asks for all that the model puts out: preflight knows what that may come to, but for the prompt. */
  readonly isChatToTheEnd?: true
  readonly isFree?: boolean
  call(gateway: Pick<AskedGateway, 'post'>, key: TestKey, name: string): Promise<Response>
}

/** The paid endpoints. Each call's worst case fits an ample balance, and is more than a low one. */
const ENDPOINTS: readonly Endpoint[] = [
  {
    name: 'chat',
    models: [
      ['svc/within', true],
      ['outside', false],
      ['within:economy', true],
    ],
    call: (gateway, key, name) =>
      gateway.post(key, '/chat/completions', directed('prompt_tokens=2 tokens=2', { model: name, max_tokens: 2 })),
  },
  {
    name: 'chat without max_tokens',
    models: [
      ['svc/within', true],
      ['outside', false],
      ['within:economy', true],
    ],
    isChatToTheEnd: true,
    call: (gateway, key, name) =>
      gateway.post(key, '/chat/completions', directed('prompt_tokens=2 tokens=2', { model: name })),
  },
  {
    name: 'chat that costs nothing, after a call that is paid for',
    models: [['svc/free', false]],
    isFree: true,
    async call(gateway, key, name) {
      // The gateway knows the account from then on.
      await gateway.post(key, '/chat/completions', directed('tokens=2', { model: 'outside', max_tokens: 2 }))
      return gateway.post(key, '/chat/completions', directed('tokens=2', { model: name, max_tokens: 2 }))
    },
  },
  {
    name: 'embeddings',
    models: [
      ['svc/within-words', true],
      ['svc/words', false],
    ],
    call: (gateway, key, name) => gateway.post(key, '/embeddings', { model: name, input: 'x', dimensions: 4 }),
  },
  {
    name: 'images',
    models: [
      ['svc/within-picture', true],
      ['svc/picture', false],
    ],
    call: (gateway, key, name) => gateway.post(key, '/images/generations', { model: name, prompt: 'x' }),
  },
  {
    name: 'videos',
    models: [
      ['svc/film', false],
      ['film', false],
    ],
    isVideo: true,
    // The model's own length.
    call: (gateway, key, name) => gateway.post(key, '/videos', { model: name, prompt: 'x' }),
  },
  {
    name: 'the shortest videos',
    models: [['svc/film', false]],
    isVideo: true,
    call: (gateway, key, name) => gateway.post(key, '/videos', { model: name, prompt: 'x', seconds: 1 }),
  },
]

interface Said {
  readonly message: string
  readonly verdict: 'ok' | 'warn' | 'block'
  readonly reason?: string
  readonly funded: boolean
  readonly subscribed: boolean
  readonly plan_covered: boolean
}

interface Outcome {
  readonly status: number
  readonly code: string | null
  readonly message: string
  readonly costMicrocents: number | null
}

/** The refusal that a block must come to: status, code, and a word of the message. */
const BLOCKED: Readonly<Record<string, readonly [number, string, RegExp]>> = {
  insufficient_balance: [402, 'insufficient_balance', /balance/],
  daily_limit_reached: [402, 'quota_exceeded', /daily/],
  monthly_limit_reached: [402, 'quota_exceeded', /monthly/],
  subscription_quota_exhausted: [429, 'subscription_quota_exhausted', /quota/],
}

/** A call waits 1 s for its plan's meter and 2 s for its gates, and is then decided otherwise (P3): on a busy machine that is too little. */
const clock = new SlowClock(Date.UTC(2031, 4, 17, 12))

/** How many states are asked at once. */
const AT_ONCE = 24

async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const worker = async () => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function outcomeOf(response: Response): Promise<Outcome> {
  const json = (await response.json()) as { error?: { code: string; message: string } }
  const cost = response.headers.get('Svc-Cost-Microcents')
  return {
    status: response.status,
    code: json.error?.code ?? null,
    message: json.error?.message ?? '',
    costMicrocents: cost === null ? null : Number(cost),
  }
}

/** Returns the points in which the two do not fit together; empty where all do. */
function faultsOf(
  state: State,
  isWithin: boolean,
  { isVideo = false, isFree = false }: Endpoint,
  said: Said,
  real: Outcome,
): string[] {
  const faults: string[] = []
  const hasRoom = state.plan.startsWith('room')
  const isSubscribed = hasRoom || state.plan.endsWith('used up')
  const isCovered = isSubscribed && isWithin && hasRoom
  if (said.subscribed !== isSubscribed) faults.push('subscribed')
  if (said.plan_covered !== isWithin) faults.push('plan_covered')
  const isLimited =
    !isVideo && state.enforcement !== 'notify_only' && (state.daily === 'reached' || state.monthly === 'reached')
  const hasCredit = state.balance === 'low' || state.balance === 'ample'
  if (said.funded !== (hasCredit && !isLimited)) faults.push('funded')
  if (isCovered !== (said.reason === 'plan_covered')) faults.push('plan_covered as the reason')
  if (said.verdict === 'block') {
    const [status, code, names] = BLOCKED[said.reason ?? ''] ?? [0, '', /^$/]
    const isAsSaid = real.status === status && real.code === code && names.test(real.message)
    // A balance that is there and does not cover this call's worst case is named first (E1).
    const isShortFirst = state.balance === 'low' && status === 402 && real.code === 'insufficient_balance'
    if (!isAsSaid && !isShortFirst) faults.push('not refused as said')
  } else if (real.status === (isVideo ? 202 : 200)) {
    // The cost of a video is known when it is there.
    if (!isVideo && (isCovered || isFree) !== (real.costMicrocents === 0)) faults.push('charged otherwise than said')
  } else {
    // Where the room does not cover the worst case a call may be refused that preflight lets pass.
    const mayBeShort = state.balance === 'low' && !isCovered && !isFree && (real.status === 402 || real.status === 429)
    if (!mayBeShort) faults.push('not served as said')
  }
  return faults
}

/** Preflight names max_tokens exactly when a call may be refused or cut for want of money although the verdict allows it. */
function faultsOfHint(state: State, said: Said, real: Outcome): string[] {
  const isPaidFor = said.verdict !== 'block' && said.reason !== 'plan_covered'
  const isHinted = said.message.includes('max_tokens')
  if (isHinted !== (isPaidFor && state.balance === 'low')) return ['told of max_tokens']
  if (real.status === 402 && !real.message.includes('max_tokens')) return ['not told of max_tokens by the 402']
  return []
}

/**
 * Declares the tests: one for each endpoint and model. With `every` above 1 each of them takes only every so many states, the
 * tests by turns other ones, so that together they take all.
 */
export function holdPreflightToReality({ every }: { readonly every: number }): void {
  let gateway: AskedGateway
  beforeAll(async () => {
    gateway = await openAskedGateway({ settings: SETTINGS, clock })
  }, 60_000)
  afterAll(() => {
    clock.hurry()
    return gateway.close()
  })

  // Shuffled: states that are as far apart as there are parts are too alike.
  const { between } = seeded(1)
  const parts = allStates().map((state) => ({ state, part: between(1, every) }))
  let turn = 0
  describe.each(ENDPOINTS)('what preflight says of $name is what happens', (endpoint) => {
    test.each([...endpoint.models])(
      '%s',
      async (name, isWithin) => {
        turn += 1
        const states = parts.filter(({ part }) => part === 1 + (turn % every)).map(({ state }) => state)
        expect(states.length).toBeGreaterThanOrEqual(500 / every)
        await compareStates({ gateway, endpoint, name, isWithin, states })
      },
      120_000,
    )
  })

  test('the books agree afterwards', async () => {
    expect(await findImbalances(gateway.database)).toEqual([])
  })
}

interface Comparison {
  readonly gateway: AskedGateway
  readonly endpoint: Endpoint
  readonly name: string
  readonly isWithin: boolean
  readonly states: readonly State[]
}

/** Sets the states up, and compares preflight's verdict with the call that follows, for each of them. */
async function compareStates({ gateway, endpoint, name, isWithin, states }: Comparison): Promise<void> {
  const { call, isVideo = false, isFree = false, isChatToTheEnd = false } = endpoint
  const keys = await setUpStates(gateway.database, states, clock.now())
  const faults: unknown[] = []
  const verdicts = new Map<string, number>()
  await forEach([...states.entries()], async ([index, state]) => {
    const key = keys[index]
    if (key === undefined) throw new Error('a state without a key')
    const asked = await gateway.get(key, `/inference/preflight?model=${encodeURIComponent(name)}`)
    const said = (await asked.json()) as Said
    const real = await outcomeOf(await call(gateway, key, name))
    const found = faultsOf(state, isWithin, endpoint, said, real)
    if (isChatToTheEnd) found.push(...faultsOfHint(state, said, real))
    if (found.length > 0) faults.push({ found, state, said, real })
    const kind = `${said.verdict} ${said.reason ?? ''}`
    verdicts.set(kind, (verdicts.get(kind) ?? 0) + 1)
  })
  expect(faults.slice(0, 5)).toEqual([])
  // The states reach whatever can be said of such a model.
  const common = ['block daily_limit_reached', 'block insufficient_balance', 'block monthly_limit_reached']
  const notified = ['warn daily_limit_reached', 'warn monthly_limit_reached']
  const ofPlan = isWithin
    ? ['block subscription_quota_exhausted', 'ok payg', 'ok plan_covered', 'warn subscription_quota_exhausted']
    : ['ok ', 'warn not_plan_covered']
  const ofVideo = ['block insufficient_balance', 'ok ', 'warn not_plan_covered']
  const ofFree = ['ok ', 'warn not_plan_covered']
  const all = isFree ? ofFree : isVideo ? ofVideo : [...common, ...ofPlan, ...notified]
  expect([...verdicts.keys()].sort()).toEqual(all.sort())
}
