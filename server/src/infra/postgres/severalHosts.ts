import { SECOND_MS, type Timers, within } from '../../lib/time.ts'
import type { DatabaseAddress } from './address.ts'
import { openClient } from './client.ts'

/** A host that is gone does not answer; the others are asked meanwhile. */
const ANSWER_MS = 2.5 * SECOND_MS

/** Every host answers, and none takes writes: nobody was promoted yet. */
export class NoHostTakesWrites extends Error {
  override readonly name = 'NoHostTakesWrites'
}

/**
 * Of several hosts, the one that takes writes: the one in use while it does, else the first that does. All connections of a process use
 * it; when another comes into use, those to the former host are given up, and with them every lock.
 */
export function severalHosts(urls: readonly [string, ...string[]], clock: Timers): DatabaseAddress {
  const callbacks = new Set<() => void>()
  let used = urls[0]
  let choosing: Promise<void> | null = null

  const chooseOnce = async () => {
    const found = await Promise.all(urls.map(async (url) => ({ url, says: await ask(url, clock) })))
    const writable = found.filter(({ says }) => says === 'read-write').map(({ url }) => url)
    const [first] = writable
    if (first === undefined) throw failureOf(found, used)
    if (writable.includes(used)) return
    used = first
    for (const callback of [...callbacks]) callback()
  }
  return {
    get url() {
      return used
    },
    choose() {
      choosing ??= chooseOnce().finally(() => {
        choosing = null
      })
      return choosing
    },
    onMoved(callback) {
      callbacks.add(callback)
      return () => callbacks.delete(callback)
    },
  }
}

type Said = 'read-write' | 'read-only' | Error

/** Asks a host whether it takes writes. */
async function ask(url: string, clock: Timers): Promise<Said> {
  const client = openClient(url, { maxConnections: 1, clock, applicationName: 'tollgate hosts' })
  try {
    const asked = client.query<{ writes: boolean }>(
      `select not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off' as writes`,
    )
    const rows = await within(clock, ANSWER_MS, asked, null)
    if (rows === null) return new NoHostTakesWrites('a host in DATABASE_URL does not answer')
    return rows[0]?.writes === true ? 'read-write' : 'read-only'
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  } finally {
    void client.close().catch(() => {})
  }
}

/** The failure of the host in use, or of another; where all answer, that none takes writes. */
function failureOf(found: readonly { url: string; says: Said }[], used: string): Error {
  const failures = found.flatMap(({ url, says }) => (says instanceof Error ? [{ url, says }] : []))
  const failure = failures.find(({ url }) => url === used) ?? failures[0]
  return failure?.says ?? new NoHostTakesWrites('no host in DATABASE_URL takes writes: each is a standby')
}
