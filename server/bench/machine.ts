/** The conditions of a run beside the programs: the machine, how busy it was, and how fast its disk flushes. */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { arch, cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { median } from './statistics.ts'

const FLUSHES = 100
/** PostgreSQL's own unit of writing its log. */
const FLUSH_BYTES = 8192

/** One line about the hardware and the runtime. */
export function describeMachine(): string {
  const memory = `${(totalmem() / 1e9).toFixed(0)} GB`
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${memory}, ${arch()}, Linux ${release()}, Bun ${Bun.version}`
}

/**
 * Returns how busy the machine is with others' work, and what a durable commit costs at least; `folder` is on the
 * disk in question.
 */
export function describeConditions(folder: string): string {
  const load = loadavg()[0] ?? Number.NaN
  return `load average ${load.toFixed(1)}, flush of 8 KB to disk ${flushMilliseconds(folder).toFixed(2)} ms`
}

function flushMilliseconds(folder: string): number {
  const path = join(folder, 'flush')
  const file = openSync(path, 'w')
  const block = Buffer.alloc(FLUSH_BYTES, 1)
  const times: number[] = []
  for (let index = 0; index < FLUSHES; index++) {
    const startedAt = performance.now()
    writeSync(file, block)
    fdatasyncSync(file)
    times.push(performance.now() - startedAt)
  }
  closeSync(file)
  rmSync(path)
  return median(times)
}
