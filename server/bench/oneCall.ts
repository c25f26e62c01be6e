/** Where the time of one call goes, with one connection and nothing else under way. README.md explains it. */
import { join } from 'node:path'
import { openDirectory } from '../test/dataDirectory.ts'
import { ClientConnection } from './connection.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { encodeRequests } from './requests.ts'
import { runCommand } from './session.ts'
import { median, Samples } from './statistics.ts'
import { chatBody, type Target } from './target.ts'

const USAGE = 'usage: bun server/bench/oneCall.ts [--rounds 5] [--seconds 2]'
/** The answer of a whole call, and the stream whose first token is waited for. */
const WHOLE = 'mock-4x0'
const STREAMED = 'mock-4x2'
/** Calls of each round that are not counted. */
const WARMUP_CALLS = 50
/** A key takes 100 calls a second. */
const KEYS = 400
const MOCK = 'mock'

/** One kind of call, each of which does all that the one above it does and something more. */
interface Rung {
  readonly name: string
  readonly port: number
  /** Sent by turns, each with another key. */
  readonly requests: readonly Buffer[]
  /** Of its answer; anything else ends the run. */
  readonly expected?: RegExp
  /** Counts until the first piece of text, not until the end. */
  readonly isFirstToken?: boolean
  /** Whether PostgreSQL waits for the disk before it says that a charge is there. */
  readonly waitsForDisk?: boolean
}

const { text } = readOptions(USAGE, { rounds: '5', seconds: '2' }, [])
const rounds = atLeastOne('rounds', text['rounds'])
const seconds = atLeastOne('seconds', text['seconds'])

await runCommand(120 + rounds * 9 * (seconds + 5), false, async (session) => {
  console.log(`${describeMachine()}\nbefore: ${describeConditions(session.folder)}`)
  const targets = await session.startTargets(['nginx', 'tollgate'], [WHOLE, STREAMED], KEYS)
  const [mock, nginx, tollgate] = targets
  if (mock === undefined || nginx === undefined || tollgate === undefined) throw new Error('a target is missing')
  const database = await openDirectory(join(session.folder, 'tollgate', 'data'))
  const rungs: Rung[] = [
    whole(MOCK, mock),
    whole('nginx', nginx),
    get('health: a request and its answer', tollgate, '/v1/health'),
    get('models: and the key', tollgate, '/v1/models'),
    refused('an unknown model: and the body', tollgate),
    whole('a whole answer, without the disk', tollgate),
    { ...whole('a whole answer', tollgate), waitsForDisk: true },
    { ...streamed(`${MOCK}, first token`, mock), isFirstToken: true },
    { ...streamed('nginx, first token', nginx), isFirstToken: true },
    { ...streamed('first token', tollgate), isFirstToken: true, waitsForDisk: true },
  ]
  const found = rungs.map(() => [] as number[])
  // The first round is for the compiler.
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, rung] of rungs.entries()) {
      await database.query(`alter system set synchronous_commit = ${rung.waitsForDisk ? 'on' : 'off'}`)
      await database.query('select pg_reload_conf()')
      const milliseconds = await measure(rung)
      if (round > 0) found[index]?.push(milliseconds)
    }
  }
  for (const [index, { name }] of rungs.entries()) {
    const values = found[index] ?? []
    const range = `[${Math.min(...values).toFixed(2)}–${Math.max(...values).toFixed(2)}]`
    console.log(`${name.padEnd(40)} ${median(values).toFixed(2)} ms ${range}`)
  }
  const trips = await roundTrips(() => database.query('select $1::integer', [1]))
  console.log(`${'a statement that does nothing'.padEnd(40)} ${trips.toFixed(2)} ms`)
  console.log(`after: ${describeConditions(session.folder)}`)
  await database.close()
})

function whole(name: string, target: Target): Rung {
  // The gateway asks the provider for a stream, whatever its client asks for: so does the mock's own rung.
  const body = chatBody(target, WHOLE, name === MOCK)
  return { name, port: target.port, requests: encode(target, body) }
}

function streamed(name: string, target: Target): Rung {
  return { name, port: target.port, requests: encode(target, chatBody(target, STREAMED, true)) }
}

function refused(name: string, target: Target): Rung {
  const requests = encode(target, { ...chatBody(target, WHOLE, false), model: 'none' })
  return { name, port: target.port, requests, expected: /^status 404/ }
}

function get(name: string, { port, authorizations }: Target, path: string): Rung {
  const head = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`
  const requests = authorizations.map((authorization) => Buffer.from(`${head}Authorization: ${authorization}\r\n\r\n`))
  return { name, port, requests, expected: /^not a whole completion/ }
}

function encode({ port, path, headers, authorizations }: Target, body: object): Buffer[] {
  return encodeRequests({ port, path, headers, authorizations, body })
}

/** Calls one after another over one connection; returns the median, milliseconds. */
async function measure({ name, port, requests, expected, isFirstToken = false }: Rung): Promise<number> {
  const connection = new ClientConnection(port)
  const samples = new Samples()
  const untilMs = performance.now() + seconds * 1_000
  for (let call = 0; performance.now() < untilMs; call += 1) {
    const startedMs = performance.now()
    let firstMs = Number.NaN
    const request = requests[call % requests.length] ?? Buffer.alloc(0)
    const error = await new Promise<string | null>((resolve) =>
      connection.call(request, {
        onBody: (piece) => {
          if (Number.isNaN(firstMs) && piece.includes('@')) firstMs = performance.now()
        },
        onEnd: (outcome) => resolve(outcome.error),
      }),
    )
    if (expected === undefined ? error !== null : !expected.test(error ?? '')) throw new Error(`${name}: ${error}`)
    if (call >= WARMUP_CALLS) samples.add((isFirstToken ? firstMs : performance.now()) - startedMs)
  }
  connection.close()
  return samples.percentiles().p50
}

async function roundTrips(ask: () => Promise<unknown>): Promise<number> {
  const samples = new Samples()
  for (let trip = 0; trip < 2_000; trip += 1) {
    const startedMs = performance.now()
    await ask()
    if (trip >= WARMUP_CALLS) samples.add(performance.now() - startedMs)
  }
  return samples.percentiles().p50
}
