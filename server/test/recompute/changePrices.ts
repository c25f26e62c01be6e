/** Changes the prices of videos while jobs are under way: what counts is the price at a job's creation. */

import { rename, writeFile } from 'node:fs/promises'
import { VIDEO_MODELS } from './planVideo.ts'

/** Between which instants, by the machine's clock, processes began to use the new prices. */
export interface Change {
  readonly fromMs: number
  readonly untilMs: number
}

export interface ChangeOptions {
  /** Of the gateway; ends in /v1. */
  readonly url: string
  readonly key: string
  readonly settingsPath: string
  /** Other prices, and nothing else. */
  readonly settings: string
  /** Tells the provider to complete no job, and to go on. */
  readonly hold: (isHeld: boolean) => Promise<void>
  /** Jobs that are not over. */
  readonly countOpen: () => Promise<number>
}

const AFTER_MS = 3_000
/** So many jobs that were made at the old prices are to be there when they change; about half of them are charged. */
const OPEN_LEAST = 12
/** In a small run there are never so many. */
const PATIENCE_MS = 10_000
const POLL_MS = 20
/** In a row, of connections of their own: there are a few processes, and each must have it. */
const CONFIRMED_TIMES = 24

/** Makes the change some seconds into `work`; null where that is over before. */
export async function changingPrices<T>(
  options: ChangeOptions,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly change: Change | null }> {
  let isOver = false
  const changing = (async () => {
    await pause(AFTER_MS)
    return isOver ? null : change(options)
  })()
  try {
    const result = await work()
    isOver = true
    return { result, change: await changing }
  } finally {
    isOver = true
    await changing
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

async function change({ url, key, settingsPath, settings, hold, countOpen }: ChangeOptions): Promise<Change> {
  await hold(true)
  try {
    const patientUntilMs = Date.now() + PATIENCE_MS
    while ((await countOpen()) < OPEN_LEAST && Date.now() < patientUntilMs) await pause(POLL_MS)
    const before = await readPrices(url, key)
    const fromMs = Date.now()
    await writeFile(`${settingsPath}.new`, settings)
    await rename(`${settingsPath}.new`, settingsPath)
    for (let confirmed = 0; confirmed < CONFIRMED_TIMES; ) {
      confirmed = (await readPrices(url, key)) === before ? 0 : confirmed + 1
      if (Date.now() > fromMs + 60_000) throw new Error('the new prices did not come into force')
      if (confirmed === 0) await pause(POLL_MS)
    }
    return { fromMs, untilMs: Date.now() }
  } finally {
    await hold(false)
  }
}

async function readPrices(url: string, key: string): Promise<string> {
  const prices: string[] = []
  for (let model = 0; model < VIDEO_MODELS; model += 1) {
    const headers = { Authorization: `Bearer ${key}`, Connection: 'close' }
    const response = await fetch(`${url}/models/svc/v${model}`, { headers, keepalive: false })
    prices.push(JSON.stringify(((await response.json()) as { pricing: unknown }).pricing))
  }
  return prices.join()
}
