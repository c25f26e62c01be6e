/**
 * Seeds of the kill test for requests with an Idempotency-Key: several clients send each of them at once, the gateway
 * dies, comes back, and all ask again. Whatever had left whole must come again, and each key is charged once.
 */

import { killPostgres, openDirectory } from '../dataDirectory.ts'
import { startServer } from '../server.ts'
import { askFor, startCountingUpstream } from './countingUpstream.ts'
import { settingsFor } from './killRun.ts'
import { seeded } from './seeded.ts'

const KEYS = 16
const CLIENTS_PER_KEY = 4

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
  readonly body: string
}

/** What a client got; null: the connection broke off. */
interface Got {
  readonly asked: Asked
  readonly status: number
  readonly text: string
}

export async function startKeyedRunner(): Promise<KeyedRunner> {
  const upstream = startCountingUpstream()
  const settings = settingsFor(upstream)
  let server = await startServer({ settings })
  const key = server.firstKey
  const { dataDir } = server
  // Prompts of so many tokens, which the model's context bounds: enough for 2,000 seeds.
  let made = 0

  const send = async (asked: Asked): Promise<Got | null> => {
    try {
      const response = await fetch(`${server.url}/chat/completions`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Idempotency-Key': asked.idempotencyKey },
        body: asked.body,
      })
      const text = await response.text()
      const isWhole = text.endsWith('data: [DONE]\n\n') || text.endsWith('}')
      return isWhole ? { asked, status: response.status, text } : null
    } catch {
      return null
    }
  }
  /** Until there is an answer; each 409 says that somebody is at work, which ends. */
  const insist = async (asked: Asked): Promise<Got> => {
    for (let tries = 0; tries < 5_000; tries += 1) {
      const got = await send(asked)
      if (got !== null && got.status !== 409) return got
    }
    throw new Error(`${asked.idempotencyKey} was in progress for ever`)
  }

  return {
    async run(seed) {
      const chooses = seeded(seed)
      upstream.forget()
      const asked = Array.from({ length: KEYS }, (_, index): Asked => {
        made += 1
        const number = made
        const content = askFor(number, chooses.between(1, 60))
        const stream = index % 2 === 0
        const body = JSON.stringify({ model: 'svc/answers', stream, messages: [{ role: 'user', content }] })
        return { number, idempotencyKey: `seed ${seed} key ${index}`, body }
      })
      const afterAnswers = chooses.between(0, KEYS * 3)
      const withDatabase = chooses.percent(30)
      let answers = 0
      let dying: Promise<void> | null = null
      const die = async () => {
        await server.kill()
        if (withDatabase) await killPostgres(dataDir)
      }
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
      server = await startServer({ settings, dataDir })
      const after = await Promise.all(asked.map(insist))
      const again = await Promise.all(asked.map(insist))
      const problems = [...compare([...before, ...after, ...again])]
      for (const { number } of asked) {
        const times = upstream.served.get(number)?.length ?? 0
        if (times > 2) problems.push(`call ${number}: made ${times} times, at most once on either side of the kill`)
      }
      problems.push(...(await wrongCharges(dataDir, asked)))
      return {
        problems,
        whole: before.filter((got) => got?.status === 200).length,
        cut: before.filter((got) => got === null).length,
      }
    },
    async close() {
      await server.remove()
      await upstream.stop()
    },
  }
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

/** The upstream reports the call's number as its prompt's tokens. */
async function wrongCharges(dataDir: string, asked: readonly Asked[]): Promise<string[]> {
  const database = await openDirectory(dataDir)
  const rows = await database.query<{ number: bigint; count: bigint }>(
    'select prompt_tokens as number, count(*) as count from charges group by 1',
  )
  await database.close()
  const counts = new Map(rows.map(({ number, count }) => [Number(number), Number(count)]))
  return asked
    .filter(({ number }) => counts.get(number) !== 1)
    .map(({ idempotencyKey, number }) => `${idempotencyKey}: ${counts.get(number) ?? 0} charges`)
}
