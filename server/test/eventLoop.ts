/**
 * Tells when the event loop of a process was held, and by which functions: load it into the process with `--preload`. It writes a
 * line of JSON to the file that {@link EVENT_LOOP_FILE} names for each time that nothing else had its turn for 20 ms. Time that
 * the process waited for a processor of a loaded machine is taken off (on Linux, which tells it).
 */

import * as profiler from 'bun:jsc'
import { appendFileSync, existsSync, openSync, readSync } from 'node:fs'

/** One time that the event loop was held. */
export interface Held {
  readonly milliseconds: number
  /** How much longer it took because the thread waited for a processor. */
  readonly waitedMilliseconds: number
  /** The functions that ran, those seen most often first; empty where none of ours did. */
  readonly functions: readonly string[]
}

/** The variable with the file's path. */
export const EVENT_LOOP_FILE = 'TOLLGATE_TEST_EVENT_LOOP'

const HELD_MS = 20
const LOOK_EVERY_MS = 2
const FUNCTIONS_SHOWN = 4

/** Not in Bun's types. */
const { samplingProfilerStackTraces } = profiler as unknown as { readonly samplingProfilerStackTraces: () => Traces }

interface Traces {
  readonly traces: readonly {
    /** Seconds of the machine's own clock. */
    readonly timestamp: number
    readonly frames: readonly { readonly name: string; readonly sourceURL?: string; readonly line?: number }[]
  }[]
}

/** Looks every other millisecond until the process ends; a look that comes late is told. */
function watch(tell: (held: Held) => void): void {
  profiler.startSamplingProfiler()
  const waitedSoFarMs = processorWaits()
  let lastMs = performance.now()
  let lastWaitedMs = waitedSoFarMs()
  setInterval(() => {
    const lateMs = performance.now() - lastMs - LOOK_EVERY_MS
    // Asked each time, or the samples would grow without an end.
    const { traces } = samplingProfilerStackTraces()
    const waitedMs = waitedSoFarMs()
    const heldMs = lateMs - (waitedMs - lastWaitedMs)
    if (heldMs > HELD_MS) {
      tell({
        milliseconds: Math.round(heldMs),
        waitedMilliseconds: Math.round(waitedMs - lastWaitedMs),
        functions: mostSeen(traces, lateMs),
      })
    }
    lastWaitedMs = waitedMs
    lastMs = performance.now()
  }, LOOK_EVERY_MS).unref()
}

/** The file in which Linux tells of the main thread: nanoseconds on a processor, nanoseconds that it waited for one, turns. */
const SCHEDULED = '/proc/self/schedstat'
const SCHEDULED_BYTES_MOST = 128

/** Returns a function that tells how long the main thread has waited for a processor so far; always 0 where the system does not say. */
function processorWaits(): () => number {
  if (!existsSync(SCHEDULED)) return () => 0
  const file = openSync(SCHEDULED, 'r')
  const buffer = Buffer.alloc(SCHEDULED_BYTES_MOST)
  return () => {
    const length = readSync(file, buffer, 0, SCHEDULED_BYTES_MOST, 0)
    return Number(buffer.toString('latin1', 0, length).split(' ')[1]) / 1_000_000
  }
}

function mostSeen(traces: Traces['traces'], milliseconds: number): string[] {
  const from = (traces.at(-1)?.timestamp ?? 0) - milliseconds / 1_000
  const counts = new Map<string, number>()
  for (const { timestamp, frames } of traces) {
    if (timestamp < from) continue
    // The innermost function of ours, and what it called.
    const own = frames.findIndex(({ sourceURL = '' }) => sourceURL.includes('/server/src/'))
    const [called, caller] = [frames[0], own > 0 ? frames[own] : undefined]
    const name = [called, caller].flatMap((frame) => (frame === undefined ? [] : nameOf(frame))).join(' in ')
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const sorted = [...counts].sort(([, a], [, b]) => b - a).slice(0, FUNCTIONS_SHOWN)
  return sorted.map(([name, count]) => `${name} ×${count}`)
}

function nameOf({ name, sourceURL = '', line }: Traces['traces'][number]['frames'][number]): string {
  const file = sourceURL.slice(sourceURL.lastIndexOf('/') + 1)
  return file === '' ? name || 'unnamed' : `${name || 'unnamed'} (${file}:${line})`
}

const file = process.env[EVENT_LOOP_FILE]
if (file !== undefined) watch((held) => appendFileSync(file, `${JSON.stringify(held)}\n`))
