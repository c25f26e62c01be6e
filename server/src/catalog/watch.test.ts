import { expect, test } from 'bun:test'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import type { Discovered } from './discovered.ts'
import { loadSettings } from './load.ts'
import type { Catalog } from './model.ts'
import { startLiveCatalog } from './watch.ts'

/** A file with one model, and `more` before it. */
function file(cents: number, more = ''): string {
  return `${more}
providers:
  box: { dialect: sandbox }
  vllm: { dialect: openai, base_url: "http://h/v1", api_key_env: API_KEY }
models:
  - id: svc/m
    context_length: 100
    pricing: { input_per_1m_tokens_cents: ${cents}, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: box }]
`
}

const load = (text: string) =>
  loadSettings(text, { environment: { API_KEY: 'canary' }, directory: '/', fileExists: () => true })

class World {
  text: string | null
  version = 1
  readonly told: string[] = []
  readonly activated: Catalog[] = []
  readonly replacedBy: Catalog[] = []
  reads = 0
  storeIsDown = false
  #due: (() => void) | null = null

  readonly clock: Clock = {
    now: () => 0,
    monotonicMs: () => 0,
    after: (_delayMs, callback) => {
      this.#due = callback
      return () => {
        this.#due = null
      }
    },
  }

  constructor(text: string | null) {
    this.text = text
  }

  write(text: string | null): void {
    this.text = text
    this.version += 1
  }

  /** A second passes, and all that it sets off is done. */
  async second(): Promise<void> {
    const due = this.#due
    this.#due = null
    due?.()
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
  }

  start(discovered: readonly Discovered[] = []) {
    const loaded = load(this.text ?? '')
    if (!loaded.ok) throw new Error('the first file must be good')
    const tell = (fields: unknown, message: string) => void this.told.push(`${message} ${JSON.stringify(fields)}`)
    const log: Log = { debug: tell, info: tell, warn: tell, error: tell }
    const stamp = () => (this.text === null ? null : `${this.version}`)
    return startLiveCatalog({
      clock: this.clock,
      log,
      settings: loaded.settings,
      discovered,
      stamp: stamp(),
      source: {
        fileName: 'tollgate.yaml',
        stamp: async () => stamp(),
        load: () => Promise.reject(new Error('only a start reads it in one go')),
        reload: async () => {
          this.reads += 1
          if (this.text === null) throw Object.assign(new Error('gone'), { code: 'ENOENT' })
          return load(this.text)
        },
      },
      beforeActivate: async (catalog) => {
        if (this.storeIsDown) throw new Error('no database')
        this.activated.push(catalog)
      },
      afterActivate: (catalog) => void this.replacedBy.push(catalog),
    })
  }
}

function centsOf(catalog: Catalog): number {
  const price = catalog.models[0]?.serverless.price
  return price?.kind === 'tokens' ? Number(price.inputMicrocents / 1_000_000n) : -1
}

test('a good change takes effect when the file stands still, and a call keeps what it resolved', async () => {
  const world = new World(file(1))
  const live = await world.start()
  const before = live.current()
  world.write('models: []')
  await world.second()
  world.write(file(2))
  await world.second()
  expect(world.reads).toBe(0)
  await world.second()
  expect(centsOf(live.current())).toBe(2)
  expect(centsOf(before)).toBe(1)
  expect(world.replacedBy).toEqual([live.current()])
  await world.second()
  expect(world.reads).toBe(1)
})

test('plans change with the file, and a bad one changes nothing', async () => {
  const plans = (tokens: number) =>
    `${file(1)}plans: [{ key: a, name: A, input_tokens_monthly: ${tokens}, output_tokens_monthly: 1, weekly_tokens: 1 }]\n`
  const world = new World(file(1))
  const live = await world.start()
  const seen: (number | undefined)[] = [live.current().plans[0]?.quota.inputTokens]
  for (const text of [plans(5), plans(0), file(1)]) {
    world.write(text)
    for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
    seen.push(live.current().plans[0]?.quota.inputTokens)
  }
  expect(seen).toEqual([undefined, 5, 5, undefined])
})

test('the grace of plans changes with the file', async () => {
  const plans = (seconds: number) =>
    `${file(1)}grace_seconds: ${seconds}\nplans: [{ key: a, name: A, input_tokens_monthly: 1, output_tokens_monthly: 1, weekly_tokens: 1 }]\n`
  const world = new World(plans(5))
  const live = await world.start()
  world.write(plans(7))
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect(live.current().plans.map(({ graceMs }) => graceMs)).toEqual([7_000])
})

test('a bad change keeps what was offered, and is told once, with its line', async () => {
  const world = new World(file(1))
  const live = await world.start()
  world.write(file(-2))
  for (let seconds = 0; seconds < 5; seconds += 1) await world.second()
  expect(centsOf(live.current())).toBe(1)
  expect(world.told).toHaveLength(1)
  expect(world.told[0]).toMatch(
    /tollgate.yaml:8:\d+: models\[0\].pricing.input_per_1m_tokens_cents: must not be negative/,
  )
  world.write(file(-3))
  for (let seconds = 0; seconds < 5; seconds += 1) await world.second()
  expect(world.told).toHaveLength(2)
  world.write(file(3))
  for (let seconds = 0; seconds < 2; seconds += 1) await world.second()
  expect(centsOf(live.current())).toBe(3)
})

test('a file that is gone for good keeps what was offered, and is told once; one that is being renamed is not noticed', async () => {
  const world = new World(file(1))
  const live = await world.start()
  const text = world.text
  world.write(null)
  await world.second()
  world.write(text)
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect(world.told.join()).not.toMatch(/is gone/)
  world.write(null)
  for (let seconds = 0; seconds < 5; seconds += 1) await world.second()
  expect(world.told.filter((line) => line.includes('is gone'))).toHaveLength(1)
  expect(centsOf(live.current())).toBe(1)
})

test('a file that is made after the start is read once it stands still; until then nothing is told', async () => {
  const world = new World(null)
  const live = await world.start()
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect([await live.reload(), world.told, world.reads]).toEqual([true, [], 0])
  world.write(file(7, 'drain_seconds: 3'))
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect(centsOf(live.current())).toBe(7)
  expect(world.told.join()).toMatch(/the changed settings are in effect.*take effect with a restart only/s)
  world.write(null)
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect(world.told.join()).toMatch(/the settings file is gone/)
})

test('no price takes effect before its version is stored, and it is tried again until it is', async () => {
  const world = new World(file(1))
  const live = await world.start()
  expect(world.activated).toEqual([live.current()])
  world.storeIsDown = true
  world.write(file(2))
  for (let seconds = 0; seconds < 5; seconds += 1) await world.second()
  expect(centsOf(live.current())).toBe(1)
  expect(world.told).toHaveLength(1)
  world.storeIsDown = false
  await world.second()
  expect(centsOf(live.current())).toBe(2)
  expect(world.activated.at(-1)).toBe(live.current())
})

test('a start whose prices can not be stored fails', async () => {
  const world = new World(file(1))
  world.storeIsDown = true
  await expect(world.start()).rejects.toThrow('no database')
})

test('a reload reads at once, says whether it took effect, and says why not again', async () => {
  const world = new World(file(1))
  const live = await world.start()
  world.write(file(2))
  expect(await live.reload()).toBe(true)
  expect(centsOf(live.current())).toBe(2)
  world.write('models: [')
  expect(await Promise.all([live.reload(), live.reload()])).toEqual([false, false])
  expect(await live.reload()).toBe(false)
  expect(centsOf(live.current())).toBe(2)
  expect(world.told.filter((line) => line.includes('has mistakes'))).toHaveLength(2)
})

test('settings that need a restart are named when they change, once', async () => {
  const world = new World(file(1))
  await world.start()
  for (const cents of [2, 3]) {
    world.write(file(cents, 'drain_seconds: 5\nbody_limit_bytes: 2000'))
    for (let seconds = 0; seconds < 2; seconds += 1) await world.second()
  }
  const warnings = world.told.filter((line) => line.includes('with a restart only'))
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toMatch(/"settings":\["drain_seconds","body_limit_bytes"\]/)
})

test('a provider that did not change goes on as it is, whatever else changed', async () => {
  const world = new World(file(1))
  const found: Discovered = { kind: 'gguf', file: '/m/tiny.gguf', name: 'tiny' }
  const live = await world.start([found])
  const before = live.current().providers
  world.write(file(2).replace('box: { dialect: sandbox }', 'box: { dialect: sandbox, first_token_ms: 1 }'))
  await live.reload()
  const after = live.current().providers
  expect(after.get('vllm')).toBe(before.get('vllm'))
  expect(after.get('discovered-1-tiny')).toBe(before.get('discovered-1-tiny'))
  expect(after.get('box')).not.toBe(before.get('box'))
  expect(live.current().find('tiny').kind).toBe('found')
})

test('nothing is read any more once it is closed', async () => {
  const world = new World(file(1))
  const live = await world.start()
  live.close()
  world.write(file(2))
  for (let seconds = 0; seconds < 3; seconds += 1) await world.second()
  expect(world.reads).toBe(0)
})
