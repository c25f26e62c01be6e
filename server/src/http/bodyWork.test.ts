import { afterAll, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import { parseWhole } from './body.ts'
import { createBodyWork, createOwnerTurns } from './bodyWork.ts'
import { parseForm } from './form.ts'

const work = createBodyWork(SILENCE, new TurnedClock())
afterAll(() => work.close())

const bytesOf = (text: string) => new TextEncoder().encode(text)

const FIELDS = ['name="a"', 'name="__proto__"']

describe('the thread of large bodies', () => {
  test.each([
    ['{"a":["é\\n日\\ud800",-0,1e400,{"__proto__":{"b":1}},null,true]}'],
    ['{"1":1,"0":0,"b":"","a":[]}'],
    ['{"a":'],
    [''],
    [`${'['.repeat(65)}${']'.repeat(65)}`],
  ])('makes of %p what is made of it here', async (text) => {
    const { parsed, bytes } = await work.parse('o', bytesOf(text))
    expect(parsed).toEqual(parseWhole(bytesOf(text)))
    expect(JSON.stringify(parsed)).toBe(JSON.stringify(parseWhole(bytesOf(text))))
    expect(bytes).toEqual(bytesOf(text))
  })

  test.each([
    ['multipart/form-data; boundary=b', [...FIELDS, ...FIELDS]],
    ['multipart/form-data; boundary=b', [...FIELDS, 'name="f"; filename="x"']],
    ['multipart/form-data; boundary=b', ['filename="x"']],
    ['multipart/form-data; boundary=b', ['name="a"', 'name="a"', 'name="a"', 'name="a"', 'name="a"']],
    ['multipart/form-data; boundary=z', FIELDS],
    ['multipart/form-data', FIELDS],
  ])('makes of a form, %p of %j, what is made of it here', async (contentType, names) => {
    const parts = names.map((name) => `--b\r\nContent-Disposition: form-data; ${name}\r\n\r\né\ud83d\0\r\n`)
    const form = () => bytesOf(`${parts.join('')}--b--\r\n`)
    const { parsed, bytes } = await work.parseForm('o', form(), contentType, 4)
    expect(parsed).toEqual(await parseForm(form(), contentType, 4))
    expect(bytes).toEqual(form())
  })

  test.each([
    [gzipSync('abc'), 3, bytesOf('abc')],
    [gzipSync('abc'), 2, 'large'],
    [gzipSync('abc').subarray(0, -1), 3, 'corrupt'],
  ])('decompresses %#', async (bytes, mostBytes, expected) => {
    expect<unknown>(await work.inflate('o', new Uint8Array(bytes), 'gzip', mostBytes)).toEqual(expected)
  })
})

describe('turns', () => {
  test('one works at a time, and owners take turns, however many one of them brings; what is urgent comes first', async () => {
    const turns = createOwnerTurns(new TurnedClock())
    const order: string[] = []
    let working = 0
    const take = (owner: string, name: string) =>
      turns.take(owner, name.endsWith('!'), async () => {
        working += 1
        expect(working).toBe(1)
        await new Promise((resolve) => setImmediate(resolve))
        order.push(name)
        working -= 1
        return name
      })
    const taken = ['a1', 'a2', 'a3!', 'b1', 'b2', 'c1'].map((name) => take(name.slice(0, 1), name))
    expect(turns.waiting).toBe(6)
    expect(await Promise.all(taken)).toEqual(['a1', 'a2', 'a3!', 'b1', 'b2', 'c1'])
    expect(order).toEqual(['a1', 'a3!', 'b1', 'c1', 'a2', 'b2'])
    expect(turns.waiting).toBe(0)
  })

  test.each([
    [20, 40],
    [500, 50],
  ])('after work that took %p ms nothing is done for %p ms', async (tookMs, pauseMs) => {
    const clock = new TurnedClock()
    const turns = createOwnerTurns(clock)
    const done: string[] = []
    const first = turns.take('a', false, () => clock.turn(tookMs))
    const second = turns.take('b', false, async () => done.push('b'))
    await first
    await clock.turn(pauseMs - 1)
    expect(done).toEqual([])
    await clock.turn(1)
    await second
    expect([done, turns.waiting, clock.pending]).toEqual([['b'], 0, 0])
  })

  test('those of an owner that rests wait for the end of that, 10 s at most, and nobody else', async () => {
    const clock = new TurnedClock()
    const turns = createOwnerTurns(clock)
    const done: string[] = []
    const take = (owner: string) => void turns.take(owner, true, async () => done.push(owner))
    turns.rest('a', 3_000)
    turns.rest('a', 1_000)
    turns.rest('b', 60_000)
    for (const owner of ['b', 'a', 'a', 'c']) take(owner)
    await clock.turn(0)
    expect(done).toEqual(['c'])
    await clock.turn(3_999)
    take('c')
    await clock.turn(0)
    expect(done).toEqual(['c', 'c'])
    await clock.turn(1)
    expect(done).toEqual(['c', 'c', 'a', 'a'])
    await clock.turn(5_999)
    expect(turns.waiting).toBe(1)
    await clock.turn(1)
    expect([done.at(-1), turns.waiting, clock.pending]).toEqual(['b', 0, 0])
  })

  test('work that fails is rejected to its owner, and the next has its turn', async () => {
    const turns = createOwnerTurns(new TurnedClock())
    const failing = turns.take('a', false, () => Promise.reject(new Error('broken')))
    const throwing = turns.take('a', false, () => {
      throw new Error('thrown')
    })
    const good = turns.take('b', false, async () => 1)
    const outcomes = await Promise.allSettled([failing, throwing, good])
    expect(outcomes.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.message))).toEqual([
      'broken',
      'thrown',
      1,
    ])
  })
})
