/**
 * Seeds of the kill test for requests with an Idempotency-Key, of every kind of paid call: several clients send each
 * of them at once, a gateway dies, and all ask again. An answer that had left whole must come again, and each key is
 * charged once.
 */

import type { Database } from '../../src/infra/postgres/database.ts'
import { makeCustomer, makeKey } from '../customer.ts'
import { askFor, type CountingProvider, startCountingProvider } from './countingProvider.ts'
import { openKeyedHouse, openPairedHouse } from './idempotencyHouse.ts'
import { settingsFor } from './killRun.ts'
import { seeded } from './seeded.ts'

const KEYS = 16
const CLIENTS_PER_KEY = 4
/** More than any run charges. */
const CREDIT_CENTS = 10_000_000

export interface KeyedResult {
  readonly problems: readonly string[]
  /** Whole answers that had left before the kill. */
  readonly whole: number
  /** Requests that the kill cut off. */
  readonly cut: number
}

export interface KeyedRunner {
  run(seed: number): Promise<KeyedResult>
  close(): Promise<void>
}

interface Asked {
  readonly number: number
  readonly idempotencyKey: string
  /** The API key, by which its charges are known: each has its own. */
  readonly keyId: string
  readonly key: string
  readonly path: string
  readonly body: string
}

/** The answer that a client got; null: the connection broke off. */
interface Got {
  readonly asked: Asked
  readonly status: number
  readonly text: string
}

/** `paired`: two processes on one database, of which one dies and the other lives on. */
export async function startKeyedRunner({ paired = false } = {}): Promise<KeyedRunner> {
  const provider = startCountingProvider()
  const house = await (paired ? openPairedHouse : openKeyedHouse)(settingsWithAll(provider))
  // Prompts of so many tokens, which the model's context bounds: enough for 2,000 seeds.
  let made = 0

  const send = (asked: Asked) => sendTo(house.url(), asked)
  const insist = (asked: Asked) => insistOn(asked, send)

  return {
    async run(seed) {
      const chooses = seeded(seed)
      provider.forget()
      const asked = await house.inDatabase((database) =>
        makeAsked(database, seed, () => {
          made += 1
          return { number: made, tokens: chooses.between(1, 60) }
        }),
      )
      const afterAnswers = chooses.between(0, KEYS * 3)
      const withDatabase = chooses.percent(30)
      let answers = 0
      let dying: Promise<void> | null = null
      const die = () => house.die(withDatabase, seed)
      if (afterAnswers === 0) dying = die()
      const before = await Promise.all(
        asked.flatMap((each) =>
          Array.from({ length: CLIENTS_PER_KEY }, async () => {
            let got = await send(each)
            while (got?.status === 409) got = await send(each)
            if (got !== null) answers += 1
            if (answers === afterAnswers) dying ??= die()
            return got
          }),
        ),
      )
      dying ??= die()
      await dying
      await house.restart()
      const after = await Promise.all(asked.map(insist))
      const again = await Promise.all(asked.map(insist))
      const problems = [...compare([...before, ...after, ...again])]
      for (const { number } of asked) {
        const times = provider.served.get(number)?.length ?? 0
        if (times > 2) problems.push(`call ${number}: made ${times} times, at most once on either side of the kill`)
      }
      problems.push(...(await house.inDatabase((database) => wrongCharges(database, asked))))
      return {
        problems,
        whole: before.filter((got) => got?.status === 200).length,
        cut: before.filter((got) => got === null).length,
      }
    },
    async close() {
      await house.close()
      await provider.stop()
    },
  }
}

/** Returns the whole answer; null when the connection broke off before its end. */
async function sendTo(url: string, asked: Asked): Promise<Got | null> {
  try {
    const response = await fetch(`${url}${asked.path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${asked.key}`, 'Idempotency-Key': asked.idempotencyKey },
      body: asked.body,
    })
    const text = await response.text()
    const isWhole = text.endsWith('data: [DONE]\n\n') || text.endsWith('}')
    return isWhole ? { asked, status: response.status, text } : null
  } catch {
    return null
  }
}

/** Sends until there is an answer. A 409 says that another request is at work, and that ends. */
async function insistOn(asked: Asked, send: (asked: Asked) => Promise<Got | null>): Promise<Got> {
  for (let tries = 0; tries < 5_000; tries += 1) {
    const got = await send(asked)
    if (got !== null && got.status !== 409) return got
  }
  throw new Error(`${asked.idempotencyKey} was in progress for ever`)
}

function settingsWithAll(provider: CountingProvider): string {
  const targets = 'targets: [{ provider: counting, model: answers }]'
  const more = [
    `  - { id: svc/vectors, modality: embedding, context_length: 512, pricing: { input_per_1m_tokens_cents: 1 }, ${targets} }`,
    `  - { id: svc/pictures, modality: image, pricing: { per_image_cents: 1 }, ${targets} }`,
    'plans:',
  ].join('\n')
  return settingsFor(provider).replace('plans:', more)
}

/** Of every four a stream, a whole answer, embeddings and an image. */
async function makeAsked(
  database: Database,
  seed: number,
  next: () => { number: number; tokens: number },
): Promise<Asked[]> {
  const { organizationId } = await makeCustomer(database, { cents: CREDIT_CENTS })
  const asked: Asked[] = []
  for (let index = 0; index < KEYS; index += 1) {
    const { number, tokens } = next()
    const { id: keyId, key } = await makeKey(database, organizationId)
    const words = askFor(number, tokens)
    const [path, body] = requestOf(index % 4, words)
    asked.push({ number, keyId, key, idempotencyKey: `seed ${seed} key ${index}`, path, body: JSON.stringify(body) })
  }
  return asked
}

function requestOf(kind: number, words: string): [path: string, body: object] {
  if (kind === 2) return ['/embeddings', { model: 'svc/vectors', input: words }]
  if (kind === 3) return ['/images/generations', { model: 'svc/pictures', prompt: words }]
  return [
    '/chat/completions',
    { model: 'svc/answers', stream: kind === 0, messages: [{ role: 'user', content: words }] },
  ]
}

/** Every whole answer to a key must be the same bytes; everything else 409. */
function* compare(all: readonly (Got | null)[]): Generator<string> {
  const first = new Map<string, string>()
  for (const got of all) {
    if (got === null || got.status === 409) continue
    const { idempotencyKey } = got.asked
    if (got.status !== 200) yield `${idempotencyKey}: ${got.status} ${got.text}`
    const known = first.get(idempotencyKey) ?? got.text
    if (known !== got.text) yield `${idempotencyKey}: answered with two answers`
    first.set(idempotencyKey, known)
  }
}

async function wrongCharges(database: Database, asked: readonly Asked[]): Promise<string[]> {
  const rows = await database.query<{ key_id: string; count: bigint }>(
    'select key_id, count(*) as count from charges group by 1',
  )
  const counts = new Map(rows.map(({ key_id, count }) => [key_id, Number(count)]))
  return asked
    .filter(({ keyId }) => counts.get(keyId) !== 1)
    .map(({ idempotencyKey, keyId, path }) => `${idempotencyKey} ${path}: ${counts.get(keyId) ?? 0} charges`)
}
