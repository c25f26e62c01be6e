/** Whole requests of an attacker, one after another on each of several lines. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Target } from './attack.ts'

/**
 * Sends a request with one of the target's keys, or with another; resolves to the status and the JSON of the answer, `{}` where it
 * has none.
 */
export type AskTarget = (
  method: string,
  path: string,
  body?: object,
  key?: string,
) => Promise<{ status: number; json: unknown }>

export interface Lines<T> {
  readonly lines: number
  /** Done once, before the others: makes what they use. */
  prepare(ask: AskTarget): Promise<T>
  work(ask: AskTarget, prepared: T): Promise<unknown>
}

/** A line begins its work no sooner than so long after it last began, whatever the answers: all servers get the same. */
const EVERY_MS = 200

/**
 * Repeats `work` on so many lines at once until `signal` is aborted, the keys of the target in turn. Gives the answers by
 * status; 0: none came. A path is beneath `/v1`, or begins with `/manage`.
 */
export async function askInLines<T>(
  { url, keys }: Target,
  signal: AbortSignal,
  { lines, prepare, work }: Lines<T>,
): Promise<ReadonlyMap<number, number>> {
  const byStatus = new Map<number, number>()
  const asking =
    (ownKey: string): AskTarget =>
    async (method, path, body, key = ownKey) => {
      const address = path.startsWith('/manage') ? new URL(path, url).href : `${url}${path}`
      const isRequired = path === '/webhook-endpoints'
      const headers = {
        Authorization: `Bearer ${key}`,
        ...(isRequired && { 'Idempotency-Key': crypto.randomUUID() }),
      }
      const init = { method, headers, signal, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
      const answer = await fetch(address, init).catch(() => null)
      const text = (await answer?.text().catch(() => null)) ?? ''
      const status = answer?.status ?? 0
      if (!signal.aborted) byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
      return { status, json: readJson(text) }
    }
  const prepared = await prepare(asking(keys[0] ?? ''))
  const line = async (index: number) => {
    const ask = asking(keys[index % keys.length] ?? '')
    while (!signal.aborted) {
      const startedMs = performance.now()
      await work(ask, prepared)
      await sleep(Math.max(0, startedMs + EVERY_MS - performance.now()), null, { signal }).catch(() => {})
    }
  }
  await Promise.all(Array.from({ length: lines }, (_, index) => line(index)))
  return byStatus
}

/** The id of the first entry of a list; null where there is none. */
export function firstIdOf(json: unknown): string | null {
  const { data } = json as { readonly data?: readonly unknown[] }
  return textOf(data?.[0] ?? {}, 'id')
}

/** The text member of an answer by its name; null where it has none, as from a server that discards. */
export function textOf(json: unknown, name: string): string | null {
  const value = (json as Readonly<Record<string, unknown>>)[name]
  return typeof value === 'string' ? value : null
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}
