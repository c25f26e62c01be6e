/** A client that hangs up pays for what was generated and for nothing else, stops the provider, and leaves no hold behind. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { makeKey, type TestKey } from '../customer.ts'
import { untilMetric } from '../metricsPage.ts'
import { type OpenPort, openPort } from '../openPort.ts'
import { type SteppedProvider, startSteppedProvider, toUsage } from './steppedProvider.ts'

/** Nothing here waits for a clock; a machine that is busy with other things may still be slow. */
setDefaultTimeout(60_000)

let provider: SteppedProvider
let port: OpenPort
let hangUps = 0

beforeAll(async () => {
  provider = await startSteppedProvider()
  port = await openPort(provider.url)
})

afterAll(async () => {
  provider.stop()
  await port.close()
})

/** A call that is under way, and its client's way to hang up. */
function call(key: TestKey, body: object = {}) {
  const leaving = new AbortController()
  const response = port.chat(key, body, leaving.signal)
  response.catch(() => {})
  return {
    response,
    async hangUp(): Promise<void> {
      hangUps += 1
      leaving.abort()
      await port.hungUp(hangUps)
    },
  }
}

/** Reads a stream until it has said `text`. */
async function readUntil(response: Promise<Response>, text: string): Promise<void> {
  const reader = (await response).body?.getReader()
  const decoder = new TextDecoder()
  for (let seen = ''; !seen.includes(text); ) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done) throw new Error(`the stream ended before it said ${text}: ${seen}`)
    seen += decoder.decode(value, { stream: true })
  }
}

/** Nothing is held and no place is taken any more: a call that needs the whole balance, whatever it is, is served. */
async function expectAllReleased(key: TestKey): Promise<void> {
  await port.idle()
  const { response } = call(key, { max_tokens: 90_000 })
  const last = await provider.next()
  last.says('last')
  last.ends({ prompt: 1, completion: 1 })
  expect((await response).status).toBe(200)
  await port.idle()
  expect(await findImbalances(port.gateway.database)).toEqual([])
}

const cancelled = { outcome: 'cancelled', estimated: true }

for (const stream of [true, false]) {
  describe(stream ? 'a stream' : 'a JSON request', () => {
    test('before the provider has answered: the prompt is charged, which it has been sent', async () => {
      const key = await port.gateway.customer({ cents: 1_000 })
      const { hangUp } = call(key, { stream })
      const asked = await provider.next()
      await hangUp()
      await asked.cancelled
      await port.idle()
      expect(await port.charges(key)).toMatchObject([{ ...cancelled, promptTokens: 5, completionTokens: 0 }])
      await expectAllReleased(key)
    })

    test('before the first token: the prompt is charged', async () => {
      const key = await port.gateway.customer({ cents: 1_000 })
      const { hangUp } = call(key, { stream })
      const asked = await provider.next()
      asked.begins()
      await hangUp()
      await asked.cancelled
      await port.idle()
      expect(await port.charges(key)).toMatchObject([{ ...cancelled, promptTokens: 5, completionTokens: 0 }])
      await expectAllReleased(key)
    })
  })
}

describe('in mid-answer', () => {
  test('a stream is charged for what was generated', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { response, hangUp } = call(key, { stream: true })
    const asked = await provider.next()
    asked.says('one two')
    asked.says(' three')
    await readUntil(response, 'three')
    await hangUp()
    await asked.cancelled
    await port.idle()
    expect(await port.charges(key)).toMatchObject([{ ...cancelled, completionTokens: 3 }])
    await expectAllReleased(key)
  })

  test('usage that the provider reported on its way is charged, with what came after it', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { response, hangUp } = call(key, { stream: true })
    const asked = await provider.next()
    asked.says('one', { usage: toUsage(7, 1) })
    asked.says(' two three')
    await readUntil(response, 'three')
    await hangUp()
    await asked.cancelled
    await port.idle()
    expect(await port.charges(key)).toMatchObject([{ outcome: 'cancelled', promptTokens: 7, completionTokens: 3 }])
    await expectAllReleased(key)
  })

  test('a running total in every chunk is charged as it is', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { response, hangUp } = call(key, { stream: true })
    const asked = await provider.next()
    asked.says('one', { usage: toUsage(7, 10) })
    asked.says(' two', { usage: toUsage(7, 20) })
    await readUntil(response, 'two')
    await hangUp()
    await asked.cancelled
    await port.idle()
    expect(await port.charges(key)).toEqual([
      { outcome: 'cancelled', estimated: false, promptTokens: 7, completionTokens: 20 },
    ])
    await expectAllReleased(key)
  })

  test('a model that has only been thinking is charged for that', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const thinking = call(key, { stream: true })
    const asked = await provider.next()
    asked.thinks('hmm hmm')
    await asThought()
    await thinking.hangUp()
    await asked.cancelled
    await port.idle()
    expect(await port.charges(key)).toMatchObject([cancelled])
    await expectAllReleased(key)
  })

  test('a JSON request is charged for what was generated', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = call(key)
    const asked = await provider.next()
    asked.says('one two three')
    await asThought()
    await hangUp()
    await asked.cancelled
    await port.idle()
    expect(await port.charges(key)).toMatchObject([{ ...cancelled, completionTokens: 3 }])
    await expectAllReleased(key)
  })
})

/**
 * Waits until the gateway has read the reasoning, which the client can't see. Gateway and client share one HTTP
 * client here, which takes what arrives in its order: answers that were sent later are there later.
 */
async function asThought(): Promise<void> {
  for (let trip = 0; trip < 5; trip += 1) {
    await (await fetch(`http://127.0.0.1:${port.port}/v1/health`)).text()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe('at the edges of a call', () => {
  test.each([true, false])('just before the last chunk, while the charge is committed (stream: %p)', async (stream) => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const blocked = await lockTable('charges')
    const { response, hangUp } = call(key, { stream })
    const asked = await provider.next()
    asked.says('one two three')
    asked.ends({ prompt: 5, completion: 4 })
    if (stream) await readUntil(response, 'three')
    await blocked.until('insert into charges')
    await hangUp()
    await blocked.release()
    await port.idle()
    expect(await port.charges(key)).toEqual([
      { outcome: 'completed', estimated: false, promptTokens: 5, completionTokens: 4 },
    ])
    await expectAllReleased(key)
  })

  test('while the call waits for another to give money back: it is never sent', async () => {
    const rich = await port.gateway.customer({ cents: 1_000 })
    const first = call(rich, { max_tokens: 90_000 })
    const asked = await provider.next()
    const count = provider.count
    // A second key of the same organization: a key may have one request open here.
    const second = await makeKey(port.gateway.database, rich.organizationId)
    const waiting = call(second, { stream: true, max_tokens: 100 })
    await untilWaiting()
    await waiting.hangUp()
    asked.says('one')
    asked.ends({ prompt: 5, completion: 1 })
    expect((await first.response).status).toBe(200)
    await port.idle()
    expect(provider.count).toBe(count)
    expect(await port.charges(rich)).toHaveLength(1)
    await expectAllReleased(rich)
    await expectAllReleased(second)
  })

  test('while the key is looked up: the call is never sent', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const count = provider.count
    const blocked = await lockTable('api_keys')
    const { hangUp } = call(key, { stream: true })
    await blocked.until('api_keys')
    await hangUp()
    await blocked.release()
    await port.idle()
    expect(provider.count).toBe(count)
    expect(await port.charges(key)).toEqual([])
    await expectAllReleased(key)
  })
})

const untilWaiting = () => untilMetric(port.gateway.app, 'calls_waiting_for_money', 1)

/** Takes a table away from everybody. */
async function lockTable(table: string) {
  const clock = systemClock
  const other = openClient(port.gateway.databaseUrl, { maxConnections: 1, clock })
  let letGo = () => {}
  const released = new Promise<void>((resolve) => {
    letGo = resolve
  })
  let isLocked = () => {}
  const locked = new Promise<void>((resolve) => {
    isLocked = resolve
  })
  const holding = other.transaction(async (tx) => {
    await tx.query(`lock table ${table} in access exclusive mode`)
    isLocked()
    await released
  })
  await locked
  return {
    /** Resolves when a statement with these words waits for the table. */
    async until(words: string): Promise<void> {
      for (;;) {
        const rows = await port.gateway.database.query(
          `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
           and position($1 in query) > 0`,
          [words],
        )
        if (rows.length > 0) return
      }
    },
    async release(): Promise<void> {
      letGo()
      await holding
      await other.close()
    },
  }
}
