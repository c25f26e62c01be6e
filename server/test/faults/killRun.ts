/** Runs seeds of the kill test: load, the end of the world, a restart on the same data, and a look into the books. */

import { setSubscription } from '../../src/billing/plans/setSubscription.ts'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { makeCustomer } from '../customer.ts'
import { killPostgres, openDirectory, readPostmaster } from '../dataDirectory.ts'
import { closingAfter } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'
import { audit } from './audit.ts'
import { abandonCall, makeCall, type Received } from './caller.ts'
import { type CountingProvider, PROVIDER_MODELS, startCountingProvider } from './countingProvider.ts'
import { type Crowd, makeCrowd } from './crowd.ts'
import { type Fault, type KillPlan, type PlannedCall, planOf } from './killPlan.ts'

export interface KillResult {
  readonly seed: number
  readonly fault: Fault
  /** The faults that were found; empty when all is well. */
  readonly problems: readonly string[]
  /** The fault came while calls were open, and not only after the last of them. */
  readonly struck: boolean
  readonly whole: number
  readonly cutShort: number
  readonly charges: number
  /** Of them those that a plan covers. */
  readonly covered: number
}

export interface KillRunner {
  run(seed: number): Promise<KillResult>
  close(): Promise<void>
}

/** The words that run a seed again. */
export function replayOf(seed: number): string {
  return `bun server/test/faults/killMany.ts --seeds 1 --from ${seed}`
}

const CREDIT_CENTS = 100_000

const PLAN = {
  planKey: 'small',
  status: 'active',
  periodStartMs: Date.UTC(2020, 0, 1),
  periodEndMs: Date.UTC(2120, 0, 1),
  cancelAtPeriodEnd: false,
}

/**
 * One data directory, and a gateway on it that dies and comes back once a seed. With a crowd, so many other organizations have called
 * just before each death.
 */
export async function startKillRunner({ crowdSize = 0 } = {}): Promise<KillRunner> {
  const provider = startCountingProvider()
  const settings = settingsFor(provider)
  let server = await startServer({ settings })
  const { dataDir } = server
  const crowd: Crowd | null =
    crowdSize === 0 ? null : await withDirectory(dataDir, (database) => makeCrowd(database, crowdSize))

  return {
    async run(seed) {
      const plan = planOf(seed)
      const customer = await withDirectory(dataDir, async (database) => {
        const made = await makeCustomer(database, { cents: CREDIT_CENTS })
        // Every other seed begins under a plan, whose quota some of the calls use up.
        if (seed % 2 === 0) await setSubscription(database, made.organizationId, PLAN, systemClock.now())
        return made
      })
      provider.forget()
      const problems: string[] = []
      if (plan.fault.kind === 'send' && crowd === null) {
        await server.kill()
        server = await startUnder(plan.fault.nth, dataDir, settings, server)
      }
      const before = await readPostmaster(dataDir).catch(() => null)
      await crowd?.callAll(server.url)
      // Under strace the crowd would take minutes.
      if (plan.fault.kind === 'send' && crowd !== null) await killAtSend(server, plan.fault.nth)
      const { received, exitCode, struck } = await runLoad(server, customer.key, plan, provider)
      if (struck && plan.fault.kind === 'stop' && exitCode !== 0)
        problems.push(`SIGTERM ended with ${exitCode}: ${server.errors()}`)
      if (struck && plan.fault.kind === 'stop') problems.push(...received.flatMap(brokenOff))

      server = await startServer({ settings, dataDir })
      const after = await readPostmaster(dataDir)
      const isAdopted = after.pid === before?.pid
      // A fault that came too late was none: the process was killed after the last call.
      if (struck && isAdopted !== (plan.fault.kind === 'gateway' || plan.fault.kind === 'send')) {
        problems.push(`PostgreSQL was ${isAdopted ? '' : 'not '}found running after the restart`)
      }
      return withDirectory(dataDir, async (database) => {
        const evidence = {
          organizationId: customer.organizationId,
          grantedMicrocents: BigInt(CREDIT_CENTS) * MICROCENTS_PER_CENT,
          received,
          provider,
          stoppedCleanly: struck && plan.fault.kind === 'stop',
        }
        problems.push(...(await audit(database, evidence)), ...((await crowd?.audit(database)) ?? []))
        const { count, covered } = await countCharges(database, customer.organizationId)
        const whole = received.filter((each) => each.whole).length
        const cutShort = received.filter((each) => each.id !== null && !each.whole && !each.hungUp).length
        return {
          seed,
          fault: plan.fault,
          problems,
          struck,
          whole,
          cutShort,
          charges: Number(count),
          covered: Number(covered),
        }
      })
    },
    async close() {
      await server.remove()
      await provider.stop()
    },
  }
}

async function countCharges(database: Database, organizationId: string) {
  const [row] = await database.query<{ count: bigint; covered: bigint }>(
    'select count(*) as count, count(plan_period) as covered from charges where organization_id = $1::uuid',
    [organizationId],
  )
  return row ?? { count: 0n, covered: 0n }
}

/** Models of the same price over the sandbox and the counting provider. */
export function settingsFor(provider: CountingProvider): string {
  const pricing = 'pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }'
  const model = (name: string, target: string) =>
    `  - { id: svc/${name}, plan_covered: true, context_length: 32768, max_output_tokens: 4096, ${pricing}, targets: [${target}] }`
  return [
    'open_requests_per_key: 1000',
    'rate_limit: { requests_per_second: 10000, burst: 1000000 }',
    'providers:',
    '  simulated: { dialect: sandbox }',
    `  counting: { dialect: openai, base_url: "${provider.url}" }`,
    'models:',
    model('sandbox', '{ provider: simulated, model: sandbox }'),
    ...PROVIDER_MODELS.map((name) => model(name, `{ provider: counting, model: ${name} }`)),
    'plans:',
    '  - { key: small, name: Small, input_tokens_monthly: 300, output_tokens_monthly: 100000, weekly_tokens: 100000 }',
    '',
  ].join('\n')
}

const SENDS = 'sendto,sendmsg,writev'

/** Options of strace by which a process dies at its nth send. Not --seccomp-bpf: with it strace 6.1 injects no signal. */
function dyingAtSend(nth: number): string[] {
  return ['-f', '-o', '/dev/null', '-e', `trace=${SENDS}`, '-e', `inject=${SENDS}:signal=SIGKILL:when=${nth}`]
}

/** A gateway that runs dies at its nth send from now on. */
async function killAtSend({ process: { pid } }: TestServer, nth: number): Promise<void> {
  const strace = Bun.spawn(['strace', '-p', String(pid), ...dyingAtSend(nth)], { stdout: 'ignore', stderr: 'pipe' })
  // It says when it has begun.
  await strace.stderr.getReader().read()
}

/** Starts a gateway that dies at its nth send. Where that is before it serves, one that dies 50 sends later. */
async function startUnder(nth: number, dataDir: string, settings: string, dead: TestServer): Promise<TestServer> {
  for (let when = nth; when < nth + 10_000; when += 50) {
    // -D: the gateway itself is our child.
    const wrapper = ['strace', '-D', ...dyingAtSend(when)]
    try {
      return await startServer({ settings, dataDir, wrapper })
    } catch (error) {
      if (!String(error).includes('before it served')) throw error
    }
  }
  return dead
}

async function withDirectory<T>(dataDir: string, work: (database: Database) => Promise<T>): Promise<T> {
  return closingAfter(await openDirectory(dataDir), work)
}

/** Makes the plan's calls and brings on its fault. Resolves when the gateway has ended and every client knows. */
async function runLoad(
  server: TestServer,
  key: string,
  plan: KillPlan,
  provider: CountingProvider,
): Promise<{ received: Received[]; exitCode: number | null; struck: boolean }> {
  const received: Received[] = []
  const queue = [...plan.calls]
  let whole = 0
  let ending: Promise<number | null> | null = null
  const exited = new Promise<number | null>((resolve) => server.process.once('exit', (code) => resolve(code)))
  let isDead = false
  void exited.then(() => {
    isDead = true
  })
  const one = async (call: PlannedCall) => {
    const got =
      call.model === 'silent'
        ? await abandonCall(server.url, key, call, provider)
        : await makeCall(server.url, key, call)
    received.push(got)
    if (got.whole) whole += 1
    if (whole === plan.afterAnswers && plan.fault.kind !== 'send') ending ??= bringOn(plan, server, exited)
  }
  const worker = async () => {
    for (let call = queue.shift(); call !== undefined && !isDead; call = queue.shift()) await one(call)
  }
  await Promise.all(Array.from({ length: plan.width }, worker))
  const struck =
    ending !== null || isDead || received.some(({ whole, hungUp, code }) => !whole && !hungUp && code === null)
  // The Nth send may never have come.
  if (!struck) server.process.kill('SIGKILL')
  await ending
  return { received, exitCode: await exited, struck }
}

async function bringOn(
  { fault, thenTurns }: KillPlan,
  server: TestServer,
  exited: Promise<number | null>,
): Promise<number | null> {
  for (let turn = 0; turn < thenTurns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  if (fault.kind === 'stop') {
    server.process.kill('SIGTERM')
  } else if (fault.kind === 'both' && fault.databaseFirst) {
    await killPostgres(server.dataDir)
    server.process.kill('SIGKILL')
  } else {
    server.process.kill('SIGKILL')
    if (fault.kind === 'both') await killPostgres(server.dataDir)
  }
  return exited
}

/** A clean stop breaks off no answer: each comes whole, or is refused in words, or never reached the server. */
export function brokenOff({ call, id, status, whole, hungUp, code }: Received): string[] {
  if (whole || hungUp || code !== null) return []
  return id === null && status === null ? [] : [`call ${call.number}: broken off by a clean stop`]
}
