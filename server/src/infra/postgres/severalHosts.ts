import { SECOND_MS, sleep, type Timers, within } from '../../lib/time.ts'
import type { DatabaseAddress } from './address.ts'
import { openClient } from './client.ts'

/** Nobody waits longer for a host that does not answer. */
const ANSWER_MS = 2.5 * SECOND_MS
/** For so long the host in use goes before another that takes writes. It answers within milliseconds if it is there. */
const PATIENCE_MS = 300
/** Between two questions to one host. */
const AGAIN_MS = 250

/** No host takes writes now: each is a standby that nobody has promoted yet, or does not answer. */
export class NoHostTakesWrites extends Error {
  override readonly name = 'NoHostTakesWrites'
}

/**
 * Of several hosts, the one that takes writes: the one in use while it does, else the first that does. All connections of
 * a process use it. When another comes into use, those to the former host are given up, and with them every lock.
 * `onRivals` is told, once a look, of hosts (`name:port`) that take writes at the same time: each would have charges of its own.
 */
export function severalHosts(
  urls: readonly [string, ...string[]],
  clock: Timers,
  onRivals: (hosts: readonly string[]) => void,
): DatabaseAddress {
  const callbacks = new Set<() => void>()
  let used = urls[0]
  let choosing: Promise<void> | null = null

  const chooseOnce = async () => {
    const chosen = await firstThatWrites(urls, used, { clock, onRivals })
    if (chosen === used) return
    used = chosen
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

/**
 * Asks all hosts at once, and again until one is chosen. Resolves to the host in use if it takes writes; else, once that one has
 * answered or has been silent for too long, to the first in the order of the list that takes writes.
 */
async function firstThatWrites(
  urls: readonly string[],
  used: string,
  { clock, onRivals }: { readonly clock: Timers; readonly onRivals: (hosts: readonly string[]) => void },
): Promise<string> {
  const answers = new Map<string, Said>()
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let isPatient = true
  const judge = () => {
    const other = urls.find((url) => url !== used && answers.get(url) === 'read-write')
    if (answers.get(used) === 'read-write') resolve(used)
    else if (other !== undefined && (answers.has(used) || !isPatient)) resolve(other)
    else if (answers.size === urls.length) reject(failureOf(answers, used))
  }
  let isTold = false
  const tellRivals = () => {
    const rivals = urls.filter((url) => answers.get(url) === 'read-write')
    if (rivals.length < 2 || isTold) return
    isTold = true
    onRivals(rivals.map((url) => new URL(url).host))
  }
  let isOver = false
  const watch = async (url: string) => {
    while (!isOver) {
      answers.set(url, await ask(url, clock))
      judge()
      // Also of a host that answers when another was chosen.
      tellRivals()
      // Asked again and again: this host may be promoted while another one is silent.
      await sleep(clock, AGAIN_MS)
    }
  }
  for (const url of urls) void watch(url)
  const cancel = clock.after(PATIENCE_MS, () => {
    isPatient = false
    judge()
  })
  return promise.finally(() => {
    isOver = true
    cancel()
  })
}

/** The failure of the host in use, or of another; where all answer, that none takes writes. */
function failureOf(answers: ReadonlyMap<string, Said>, used: string): Error {
  const failures = [answers.get(used), ...answers.values()].filter((says) => says instanceof Error)
  return failures[0] ?? new NoHostTakesWrites('no host in DATABASE_URL takes writes: each is a standby')
}
