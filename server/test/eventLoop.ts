/**
 * Tells when the event loop of a process was held, and by which functions: load it into the process with `--preload`. It writes a
 * line of JSON to the file that {@link EVENT_LOOP_FILE} names for each time that nothing else had its turn for 20 ms in which the
 * thread itself worked: the time that it was on a processor, whatever else a loaded machine does.
 */

import * as profiler from 'bun:jsc'
import { appendFileSync } from 'node:fs'

/** One time that the event loop was held. */
export interface Held {
  /** For so long the main thread worked on a processor. */
  readonly milliseconds: number
  /** So long nothing else had its turn: beside that work, waits for a processor and for files. */
  readonly lateMilliseconds: number
  /** The functions that ran, those seen most often first; empty where none of ours did. */
  readonly functions: readonly string[]
}

/** The variable with the file's path. */
export const EVENT_LOOP_FILE = 'TOLLGATE_TEST_EVENT_LOOP'

const HELD_MS = 20
const LOOK_EVERY_MS = 2
/** So many looks later the samples are taken out, or they would grow without an end. More often would itself make work. */
const LOOKS_A_SAMPLE = 50
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
  let lastMs = performance.now()
  let lastWorkedMs = workedSoFarMs()
  let looks = 0
  setInterval(() => {
    const lateMs = performance.now() - lastMs - LOOK_EVERY_MS
    // A thread that was idle in between, and so had turns to give, has worked for less.
    const heldMs = Math.min(workedSoFarMs() - lastWorkedMs, lateMs)
    looks += 1
    if (heldMs > HELD_MS) {
      const functions = mostSeen(samplingProfilerStackTraces().traces, lateMs)
      tell({ milliseconds: Math.round(heldMs), lateMilliseconds: Math.round(lateMs), functions })
    } else if (looks % LOOKS_A_SAMPLE === 0) samplingProfilerStackTraces()
    lastWorkedMs = workedSoFarMs()
    lastMs = performance.now()
  }, LOOK_EVERY_MS).unref()
}

/** How long this thread has been on a processor so far. */
function workedSoFarMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
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
