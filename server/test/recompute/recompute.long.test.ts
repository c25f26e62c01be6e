/** Random load on a real server, recomputed by an independent program: as many runs as fit into the time given. */

import { expect, test } from 'bun:test'
import { copyFile, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { recompute, runOnce } from './recompute.ts'

const CALLS = 20_000
/** Beyond the time for runs: the last of them, which may wait a minute for its edge, and the planted faults. */
const SLACK_MS = 240_000
const FILES = [
  'settings.json',
  'settings-later.json',
  'change.json',
  'sent.jsonl',
  'received.jsonl',
  'charges.jsonl',
  'accounts.json',
] as const
type File = (typeof FILES)[number]

/** Changes to the files of a good run, each of which the program must find. A line that is taken out is null. */
const FAULTS: readonly (readonly [string, File, (line: string) => string | null])[] = [
  ['a micro-cent more', 'charges.jsonl', (line) => line.replace(/"costMicrocents" ?: ?"(\d+)"/, more(1n))],
  ['a token less', 'charges.jsonl', (line) => line.replace(/"completion" ?: ?[1-9]\d*/, '"completion" : 0')],
  ['a call that was not charged', 'charges.jsonl', () => null],
  ['a call that was charged twice', 'charges.jsonl', (line) => `${line}\n${line}`],
  ['a charge for nobody', 'charges.jsonl', (line) => `${line}\n${line.replace(/"id" ?: ?"[^"]*"/, '"id" : "0"')}`],
  ['another tier', 'charges.jsonl', (line) => line.replace('"serverless"', '"economy"')],
  ['the price of another time', 'charges.jsonl', (line) => line.replace(/"admittedMs" ?: ?(\d+)/, moved(3_600_000))],
  ['an image more', 'charges.jsonl', (line) => line.replace(/"images" ?: ?(\d+)/, more(1n))],
  ['a pixel more', 'charges.jsonl', (line) => line.replace(/"pixels" ?: ?(\d+)/, more(1n))],
  ['a token of a text less', 'charges.jsonl', ofEmbeddings(/"prompt" ?: ?([1-9]\d*)/, -1n)],
  ['another image in the answer', 'received.jsonl', (line) => line.replace(/"images":\["..../, '"images":["AAAA')],
  [
    "another text's vector",
    'received.jsonl',
    (line) => line.replace('"vectorsAreRight":true', '"vectorsAreRight":false'),
  ],
  ['an image begun twice', 'sent.jsonl', (line) => (/"images":/.test(line) ? `${line}\n${line}` : line)],
  ['another cost in the answer', 'received.jsonl', (line) => line.replace(/"costMicrocents":"(\d+)"/, more(1n))],
  ['other usage on the wire', 'sent.jsonl', (line) => line.replace(/"prompt":(\d+)/, '"prompt":5000000')],
  ['a video charged twice', 'charges.jsonl', ofVideos((line) => `${line}\n${line}`)],
  ['a video charged for a failed job', 'received.jsonl', failed],
  // Of the model that is so cheap that the cost stays what it is.
  ['a second more of a video', 'charges.jsonl', ofCheapVideos],
  [
    'a video at the price of another time',
    'change.json',
    (line) => line.replace(/"untilMs":(\d+)/, moved(3_600_000)).replace(/"fromMs":(\d+)/, moved(3_600_000)),
  ],
  ['a video that is no clip', 'sent.jsonl', (line) => line.replace(/"clip":"\w+"/, '"clip":"page"')],
  ["another video's file", 'received.jsonl', (line) => line.replace(/"sha256":"[0-9a-f]/, '"sha256":"x')],
  ['a balance that is off by one', 'accounts.json', (line) => line.replace(/"balance":"(-?\d+)"/, more(1n))],
]

function more(microcents: bigint) {
  return (field: string, amount: string) => field.replace(amount, String(BigInt(amount) + microcents))
}

function ofEmbeddings(field: RegExp, by: bigint) {
  return (line: string) => (/"modality" ?: ?"embedding"/.test(line) ? line.replace(field, more(by)) : line)
}

function ofVideos(change: (line: string) => string) {
  return (line: string) => (/"modality" ?: ?"video"/.test(line) ? change(line) : line)
}

function ofCheapVideos(line: string): string {
  return /"model" ?: ?"svc\/v0"/.test(line) ? line.replace(/"seconds" ?: ?(\d+)/, more(1n)) : line
}

function failed(line: string): string {
  if (!line.includes('"jobStatus":"completed"')) return line
  const told = line.replace('"end":"whole"', '"end":"error"').replace(/"costMicrocents":"\d+"/, '"costMicrocents":null')
  return told.replace('"jobStatus":"completed"', '"jobStatus":"failed"')
}

function moved(byMs: number) {
  return (field: string, ms: string) => field.replace(ms, String(Number(ms) + byMs))
}

/** The lines that the fault changes something of, and that are for a whole answer of a call that paid. */
const isFit: Readonly<Record<File, RegExp>> = {
  'settings.json': /^/,
  'settings-later.json': /^/,
  'change.json': /^/,
  'sent.jsonl': /("usage":\{|"images":\[|"clip":"(second|down|tie|up|four)","mayBeCancelled":false).*"end":"whole"/,
  'received.jsonl': /"costMicrocents":"[1-9].*/,
  'charges.jsonl': /"tier" ?: ?"serverless".*"isEstimated" ?: ?false.*"outcome" ?: ?"completed"/,
  'accounts.json': /^/,
}

test(
  'every charge of random load is right to the micro-cent, and what is wrong is found',
  async () => {
    let folder = ''
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 1_000 })
    let runs = 0
    let charges = 0
    do {
      if (folder !== '') await rm(folder, { recursive: true })
      folder = await mkdtemp(join(tmpdir(), 'tollgate-recompute-'))
      const seed = firstSeed + runs
      const processes = 1 + (runs % 2)
      const result = await runOnce({ seed, calls: CALLS, processes, atOnce: 64, folder })
      const again = `bun server/test/recompute/run.ts --calls ${CALLS} --processes ${processes} --seed ${seed}`
      expect({ problems: result.recomputed.problems, agrees: result.agrees, again }).toEqual({
        problems: [],
        agrees: true,
        again,
      })
      expect(result.recomputed.calls).toBe(CALLS)
      // The run was what it is meant to be.
      const { outcomes, estimated, cached, peak_and_off_peak, early, embeddings, images, partial } = result.recomputed
      for (const outcome of ['completed', 'cancelled', 'interrupted']) expect(outcomes[outcome]).toBeGreaterThan(50)
      // Of a hundred jobs, what is not cancelled, left or failed.
      expect(result.recomputed.videos).toBeGreaterThan(20)
      expect(result.recomputed.frozen).toBeGreaterThan(0)
      for (const count of [estimated, cached, embeddings, images, partial]) expect(count).toBeGreaterThan(300)
      expect(peak_and_off_peak).toBeGreaterThan(0)
      expect(early).toBeGreaterThan(0)
      runs += 1
      charges += result.recomputed.charges
    } while (goesOn())
    console.log(`seeds: ${runs} of the recomputation, from ${firstSeed}; ${charges} charges right to the micro-cent`)
    const missed = await plantFaults(folder)
    await rm(folder, { recursive: true })
    expect(missed).toEqual([])
  },
  longSeconds() * 1_000 + SLACK_MS,
)

/** The faults that the program does not find. */
async function plantFaults(folder: string): Promise<string[]> {
  const missed: string[] = []
  for (const [name, file, change] of FAULTS) {
    const copy = await mkdtemp(join(folder, 'fault-'))
    for (const each of FILES) await copyFile(join(folder, each), join(copy, each))
    await symlink(join(folder, 'clips'), join(copy, 'clips'))
    const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
    const index = lines.findIndex((line) => isFit[file].test(line) && change(line) !== line)
    if (index < 0) throw new Error(`no line of ${file} to plant "${name}" in`)
    const changed = lines.flatMap((line, at) => (at === index ? (change(line) ?? []) : [line]))
    await writeFile(join(copy, file), changed.join('\n'))
    const { found } = await recompute(copy)
    if (found === 0) missed.push(name)
    await rm(copy, { recursive: true })
  }
  return missed
}
