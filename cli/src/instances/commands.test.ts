import { beforeEach, expect, test } from 'bun:test'
import type { TurnedClock } from '../../../server/test/clock.ts'
import { type TestSystem, testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

let clock: TurnedClock
let out: string
let drawn: string
let asked: string[]
/** The server's answers, one after the other; the last one stays. Null: it can't be reached. */
let answers: (object | null)[]
let isOutputBroken: boolean
let interrupt: () => boolean
beforeEach(() => {
  out = ''
  drawn = ''
  asked = []
  isOutputBroken = false
})

const OFFERINGS = {
  gpu_types: [
    {
      name: 'a100',
      vram_gb: 80,
      count: 8,
      price_per_hour_cents: 250,
      price_per_hour_microcents: 249_600_000,
      disk_gb_max: 1000,
    },
  ],
  apps: [{ name: 'server', port: 8080, terminal: false, vram_gb_min: 8, models: [{ name: 'small', vram_gb: 20 }] }],
}
const operation = (state: string, more: object = {}) => ({
  operation_id: 'o1',
  resource_id: 'i1',
  state,
  error: null,
  ...more,
})
const INSTANCE = {
  ...{
    id: 'i1',
    name: 'mine',
    app: 'server',
    model: 'small',
    gpu_type: 'a100',
    gpu_count: 2,
    disk_gb: 0,
    state: 'running',
  },
  ...{
    reason: null,
    price_per_hour_cents: 500,
    created_at: '2031-05-17T13:30:00.000Z',
    running_at: null,
    ended_at: null,
  },
  ...{ app_url: 'https://i1.apps.test/', terminal_url: null },
}
const PASSWORD = { app_url: 'https://i1.apps.test/', terminal_url: null, user: 'tollgate', password: 'secret-1' }

function systemOf(): TestSystem {
  const made = testSystem({
    fetch: async (url, init) => {
      const body = typeof init?.body === 'string' ? ` ${init.body}` : ''
      asked.push(`${init?.method} ${String(url).replace('http://gateway.test', '')}${body}`)
      const next = answers.length > 1 ? answers.shift() : answers[0]
      if (next === null || next === undefined) throw new Error('refused')
      return Response.json(next)
    },
    stderr: (text) => {
      drawn += text
    },
    print: async (text) => {
      if (isOutputBroken) throw Object.assign(new Error('no'), { code: 'ENOSPC' })
      out += text
    },
  })
  clock = made.clock as TurnedClock
  return made
}

/** Types a line, and turns the clock until it has ended. */
async function type(words: readonly string[], onSecond: (second: number) => void = () => {}): Promise<number> {
  const system = systemOf()
  let left: (() => void) | null = null
  interrupt = () => {
    left?.()
    return left !== null
  }
  const watching = {
    ...system.system,
    onInterrupt: (callback: () => void) => {
      left = callback
      return () => {
        left = null
      }
    },
  }
  let code: number | null = null
  const running = runLine(['instances', ...words], watching).then((ended) => {
    code = ended
  })
  for (let second = 0; code === null && second < 6_000; second += 1) {
    onSecond(second)
    await clock.turn(1_000)
  }
  await running
  return code ?? -1
}

test('the offerings are listed', async () => {
  answers = [OFFERINGS]
  expect(await type(['offerings'])).toBe(0)
  for (const word of ['a100', '80 GB', '$2.50', 'server', 'small']) expect(out).toContain(word)
  expect(asked).toEqual(['GET /v1/instances/offerings'])
})

test('an instance is rented at the price of the list', async () => {
  answers = [OFFERINGS, operation('pending', { warnings: ['No model is named: the app starts without one.'] })]
  expect(await type(['create', 'server', '--gpu-type', 'a100', '--gpus', '2', '--disk', '10'])).toBe(0)
  expect(asked[1]).toBe(
    'POST /v1/instances {"app":"server","gpu_type":"a100","expected_price_per_hour_cents":499,"gpu_count":2,"disk_gb":10}',
  )
  expect(out).toContain('Instance i1 is being made, for $4.99 an hour')
  expect(drawn).toBe('tollgate: No model is named: the app starts without one.\n')
})

test('a price that was typed is the one that is accepted', async () => {
  answers = [operation('pending')]
  expect(await type(['create', 'server', '--gpu-type', 'a100', '--price', '2.49', '--model', 'small'])).toBe(0)
  expect(asked).toEqual([
    'POST /v1/instances {"app":"server","gpu_type":"a100","expected_price_per_hour_cents":249,"model":"small"}',
  ])
})

test('a GPU type that there is not is refused before anything is rented', async () => {
  answers = [OFFERINGS]
  expect(await type(['create', 'server', '--gpu-type', 'b200'])).toBe(1)
  expect(drawn).toContain('there is no GPU type b200')
  expect(asked).toHaveLength(1)
})

test.each([
  [{ app_url: 'https://app.test/', terminal_url: null, app_basic_auth_user: null }, 'it answers at https://app.test/'],
  [{ app_url: null, terminal_url: null, app_basic_auth_user: null }, '"tollgate instances get i1" shows it'],
])('one whose app asks for no password of ours is shown where it answers: %p', async (result, next) => {
  answers = [operation('pending'), operation('succeeded', { result })]
  expect(await type(['create', 'server', '--gpu-type', 'a100', '--price', '2.50', '--wait'])).toBe(0)
  expect(out).toBe(`Instance i1 runs, for $2.50 an hour: ${next}.\n`)
})

test('it is waited for, over a server that goes away', async () => {
  const result = { app_url: 'https://i1.apps.test/', terminal_url: null, app_basic_auth_user: 'tollgate' }
  answers = [operation('pending'), operation('in_progress'), null, null, operation('succeeded', { result })]
  expect(await type(['create', 'server', '--gpu-type', 'a100', '--price', '2.50', '--wait'])).toBe(0)
  expect(out).toBe('Instance i1 runs, for $2.50 an hour: "tollgate instances open i1" makes a password for it.\n')
  expect(asked.slice(1)).toEqual(Array(4).fill('GET /v1/operations/o1'))
})

test('one that fails ends with the words of the server', async () => {
  answers = [
    operation('pending'),
    operation('failed', { error: { code: 'operation_failed', detail: 'It could not be.' } }),
  ]
  expect(await type(['create', 'server', '--gpu-type', 'a100', '--price', '2.50', '--wait'])).toBe(1)
  expect(drawn).toBe('tollgate: It could not be.\n')
})

test('Ctrl-C leaves the instance, and says that it goes on', async () => {
  answers = [operation('pending')]
  const words = ['create', 'server', '--gpu-type', 'a100', '--price', '2.50', '--wait']
  expect(await type(words, (second) => second === 5 && interrupt())).toBe(130)
  expect(drawn).toContain('left instance i1, which goes on and is billed')
  expect(drawn).toContain('"tollgate instances delete i1" ends it')
})

test('instances are listed, and one is shown', async () => {
  answers = [{ data: [INSTANCE, { ...INSTANCE, state: 'terminated', reason: 'deleted' }], next_cursor: 'c2' }]
  expect(await type(['list', '--limit', '2', '--cursor', 'c1'])).toBe(0)
  expect(asked).toEqual(['GET /v1/instances?limit=2&cursor=c1'])
  for (const word of ['mine', '2 a100', '$5.00', 'terminated (deleted)', '--cursor c2']) expect(out).toContain(word)
  answers = [INSTANCE]
  expect(await type(['get', 'i/1'])).toBe(0)
  expect(asked.at(-1)).toBe('GET /v1/instances/i%2F1')
  expect(out).toContain('https://i1.apps.test/')
})

test('an instance is deleted, and waited for where that is asked', async () => {
  answers = [operation('pending')]
  expect(await type(['delete', 'i1'])).toBe(0)
  expect(out).toBe('Instance i1 is being deleted, and costs nothing from now on.\n')
  answers = [operation('pending'), operation('succeeded')]
  expect(await type(['delete', 'i1', '--wait'])).toBe(0)
  expect(out).toEndWith('Deleted the instance i1.\n')
})

test('a password is made and shown once; where it can not be written, another takes its place', async () => {
  answers = [PASSWORD]
  expect(await type(['open', 'i1'])).toBe(0)
  expect(asked).toEqual(['POST /v1/instances/i1/app-password'])
  for (const word of ['https://i1.apps.test/', 'tollgate', 'secret-1']) expect(out).toContain(word)
  asked = []
  isOutputBroken = true
  expect(await type(['open', 'i1'])).toBe(1)
  expect(asked).toEqual(Array(2).fill('POST /v1/instances/i1/app-password'))
  expect(drawn).toContain('another password took its place')
  expect(drawn).not.toContain('secret-1')
})
