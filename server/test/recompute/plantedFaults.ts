/** Changes to the files of a good run, each of which the independent program must find. */

import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { recompute } from './recompute.ts'

/**
 * Calls of the run in which faults are planted: the first ones, since each fault takes a recomputation; so many that the prices
 * of videos change among them.
 */
const CALLS = 20_000
/** Recomputations at once. */
const AT_ONCE = 2

const FILES = [
  'settings.json',
  'settings-later.json',
  'change.json',
  'sent.jsonl',
  'received.jsonl',
  'instances.jsonl',
  'charges.jsonl',
  'accounts.json',
] as const
type File = (typeof FILES)[number]
/**
 * A line that is taken out is null. `fit` says which lines are changed, where it is another than that of the file. The first
 * of them is changed, or with `everywhere` each.
 */
type Fault = readonly [
  name: string,
  file: File,
  change: (line: string) => string | null,
  fit?: RegExp | undefined,
  everywhere?: true,
]

/** Of a client that left before the first word. */
const CANCELLED_AT_ONCE = /"completion" ?: ?0,.*"outcome" ?: ?"cancelled"/

const OF_INSTANCES = /"modality" ?: ?"instance"/
const HOUR = /"price_per_hour_microcents": ?(\d+)/
const ENDED_AT = /"ended_at":"([^"]+)"/

const FAULTS: readonly Fault[] = [
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
  [
    'other usage on the wire',
    'sent.jsonl',
    (line) => line.replace(/"final":\{"prompt":(\d+)/, '"final":{"prompt":5000000'),
    undefined,
    // Some reports are believed as little without the fault.
    true,
  ],
  ['a prompt that was read and is not charged', 'charges.jsonl', () => null, CANCELLED_AT_ONCE],
  [
    'a prompt that was charged before it was read to its end',
    'sent.jsonl',
    (line) => line.replace('"end":"cancelled"', '"end":"unread"').replace(/"target":"[^"]*"/, '"target":null'),
    /"words":0,.*"end":"cancelled"/,
    // A few may be lost with their connections.
    true,
  ],
  [
    'a report that is believed and should not be',
    'charges.jsonl',
    (line) => line.replace(/"isEstimated" ?: ?true/, '"isEstimated" : false'),
    /"isEstimated" ?: ?true.*"outcome" ?: ?"completed"/,
  ],
  ['more tokens than there can be', 'charges.jsonl', (line) => line.replace(/"prompt" ?: ?(\d+)/, more(1_000_000n))],
  [
    'more in an answer than its words',
    'received.jsonl',
    (line) => line.replace('"isGarbled":false', '"isGarbled":true'),
  ],
  [
    'a prompt that is too long, and is not told so',
    'received.jsonl',
    (line) => line.replace('"code":"context_length_exceeded"', '"code":"upstream_error"'),
    /"end":"error".*"code":"context_length_exceeded"/,
  ],
  [
    'more spent in a day than its limit',
    'accounts.json',
    (line) => line.replace(/"dailyLimit":"\d+"/, '"dailyLimit":"1"'),
  ],
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
  ['a minute of an instance charged twice', 'charges.jsonl', (line) => `${line}\n${line}`, OF_INSTANCES],
  ['a minute of an instance that is not charged', 'charges.jsonl', () => null, OF_INSTANCES],
  ['an instance that lived a second longer', 'instances.jsonl', (line) => line.replace(ENDED_AT, ended(1_000))],
  ['an instance of another price', 'settings.json', (line) => line.replace(HOUR, more(3_600n)), HOUR, true],
  ['a balance that is off by one', 'accounts.json', (line) => line.replace(/"balance":"(-?\d+)"/, more(1n))],
]

function more(microcents: bigint) {
  return (field: string, amount: string) => field.replace(amount, String(BigInt(amount) + microcents))
}

function ended(laterMs: number) {
  return (field: string, at: string) => field.replace(at, new Date(Date.parse(at) + laterMs).toISOString())
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
  'sent.jsonl': /("final":\{|"images":\[|"clip":"(second|down|tie|up|four)","mayBeCancelled":false).*"end":"whole"/,
  'received.jsonl': /"costMicrocents":"[1-9].*/,
  'instances.jsonl': /"running_at":"/,
  'charges.jsonl': /"model" ?: ?"svc.*"tier" ?: ?"serverless".*"isEstimated" ?: ?false.*"outcome" ?: ?"completed"/,
  'accounts.json': /^/,
}

/** The faults that the program does not find in the beginning of the run in `folder`. */
export async function plantFaults(folder: string): Promise<string[]> {
  const beginning = join(folder, 'beginning')
  await takeBeginning(folder, beginning)
  // Calls that were under way at the cut, and accounts, which know all calls, are wrong without any fault.
  const { found: foundWithout } = await recompute(beginning)
  const missed: string[] = []
  const left = [...FAULTS]
  const plant = async () => {
    for (let fault = left.shift(); fault !== undefined; fault = left.shift()) {
      if ((await foundWith(beginning, fault)) <= foundWithout) missed.push(fault[0])
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, plant))
  return missed
}

async function foundWith(folder: string, [name, file, change, fit = isFit[file], everywhere]: Fault): Promise<number> {
  const copy = await mkdtemp(join(folder, 'fault-'))
  for (const each of FILES) await copyFile(join(folder, each), join(copy, each))
  await symlink(join(folder, 'clips'), join(copy, 'clips'))
  const lines = (await readFile(join(folder, file), 'utf8')).split('\n')
  const index = lines.findIndex((line) => fit.test(line) && change(line) !== line)
  if (index < 0) throw new Error(`no line of ${file} to plant "${name}" in`)
  const isChanged = (line: string, at: number) => at === index || (everywhere === true && fit.test(line))
  const changed = lines.flatMap((line, at) => (isChanged(line, at) ? (change(line) ?? []) : [line]))
  await writeFile(join(copy, file), changed.join('\n'))
  const { found } = await recompute(copy)
  await rm(copy, { recursive: true })
  return found
}

/** The files of the first calls, with accounts that have what these have left. */
async function takeBeginning(folder: string, beginning: string): Promise<void> {
  await mkdir(beginning)
  await symlink(join(folder, 'clips'), join(beginning, 'clips'))
  const linesOf = async (file: File) => (await readFile(join(folder, file), 'utf8')).split('\n').filter(Boolean)
  const write = (file: File, lines: readonly string[]) => writeFile(join(beginning, file), `${lines.join('\n')}\n`)
  for (const file of ['settings.json', 'settings-later.json', 'change.json'] as const) {
    await copyFile(join(folder, file), join(beginning, file))
  }
  await copyFile(join(folder, 'instances.jsonl'), join(beginning, 'instances.jsonl'))
  const received = (await linesOf('received.jsonl')).slice(0, CALLS)
  const calls = received.map((line) => JSON.parse(line) as Received)
  const untilMs = Math.max(...calls.map(({ endedMs }) => endedMs))
  const numbers = new Set(calls.map(({ call }) => call))
  const ids = new Set(calls.map(({ chargeId }) => chargeId))
  const aloneKeys = new Set(calls.filter(({ isEarly }) => isEarly).map(({ keyId }) => keyId))
  const charges = (await linesOf('charges.jsonl')).filter((line) => {
    const { id, keyId, admittedMs } = JSON.parse(line) as ChargeLine
    return OF_INSTANCES.test(line) || ids.has(id) || (aloneKeys.has(keyId) && admittedMs <= untilMs)
  })
  await write('received.jsonl', received)
  await write(
    'sent.jsonl',
    (await linesOf('sent.jsonl')).filter((line) => numbers.has((JSON.parse(line) as Received).call)),
  )
  await write('charges.jsonl', charges)
  const spent = new Map<string, bigint>()
  for (const line of charges) {
    const { organizationId, costMicrocents } = JSON.parse(line) as ChargeLine
    spent.set(organizationId, (spent.get(organizationId) ?? 0n) + BigInt(costMicrocents))
  }
  const [accounts = '[]'] = await linesOf('accounts.json')
  const left = (JSON.parse(accounts) as Account[]).map((account) => ({
    ...account,
    balance: String(BigInt(account.granted) - (spent.get(account.organizationId) ?? 0n)),
  }))
  await write('accounts.json', [JSON.stringify(left)])
}

type Received = { call: number; chargeId: string | null; keyId: string; isEarly: boolean; endedMs: number }
type ChargeLine = { id: string; keyId: string; organizationId: string; admittedMs: number; costMicrocents: string }
type Account = { organizationId: string; granted: string }
