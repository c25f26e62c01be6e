import { FIRST_NUMBER, type ProviderModel } from './countingProvider.ts'
import { type Seeded, seeded } from './seeded.ts'

/** How the world ends. */
export type Fault =
  /** SIGKILL to the gateway; PostgreSQL is left behind. */
  | { readonly kind: 'gateway' }
  /** SIGKILL to the gateway and to every process of PostgreSQL. */
  | { readonly kind: 'both'; readonly databaseFirst: boolean }
  /** SIGKILL at the gateway's Nth send to any socket: to a client, the provider, or the database. */
  | { readonly kind: 'send'; readonly nth: number }
  /** SIGTERM: open calls are to end well. */
  | { readonly kind: 'stop' }

export interface PlannedCall {
  /** Unique in the plan; shows as `prompt_tokens` in the usage of its charge. */
  readonly number: number
  readonly model: 'sandbox' | ProviderModel
  readonly stream: boolean
  readonly tokens: number
  /** The client hangs up after so many pieces of text; null: it stays. Streams only. */
  readonly hangsUpAfter: number | null
}

export interface KillPlan {
  readonly seed: number
  readonly calls: readonly PlannedCall[]
  /** Calls that are open at the same time. */
  readonly width: number
  readonly fault: Fault
  /** It comes when so many answers have been received whole … */
  readonly afterAnswers: number
  /** … and so many turns of the event loop later. */
  readonly thenTurns: number
}

const CALLS = 300

/** Everything about a run that a seed decides. */
export function planOf(seed: number): KillPlan {
  const random = seeded(seed)
  const calls: PlannedCall[] = []
  for (let index = 0; index < CALLS; index += 1) calls.push(callOf(random, FIRST_NUMBER + index))
  const whole = calls.filter(({ model, hangsUpAfter }) => endsWhole(model) && hangsUpAfter === null).length
  return {
    seed,
    calls,
    width: random.between(100, 240),
    fault: faultOf(random, seed),
    afterAnswers: random.between(1, whole - 20),
    thenTurns: random.between(0, 40),
  }
}

export function endsWhole(model: PlannedCall['model']): boolean {
  return model === 'sandbox' || model === 'answers'
}

function callOf(random: Seeded, number: number): PlannedCall {
  const kind = random.between(1, 100)
  const model =
    kind <= 40 ? 'sandbox' : kind <= 85 ? 'answers' : kind <= 90 ? 'breaks' : kind <= 95 ? 'refuses' : 'silent'
  const stream = random.percent(50)
  const tokens = random.between(1, 40)
  const hangsUp = stream && endsWhole(model) && random.percent(15)
  return { number, model, stream, tokens, hangsUpAfter: hangsUp ? random.between(1, tokens) : null }
}

function faultOf(random: Seeded, seed: number): Fault {
  switch (seed % 4) {
    case 0:
      return { kind: 'stop' }
    case 1:
      return { kind: 'gateway' }
    case 2:
      return { kind: 'both', databaseFirst: random.percent(50) }
    default:
      // The thread that serves sends some 750 times in a run, of which the start takes some 100.
      return { kind: 'send', nth: random.between(100, 600) }
  }
}
