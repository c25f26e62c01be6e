import { describe, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { createBodyMemory, LARGE_BODY_BYTES } from './bodyMemory.ts'

const MOST = 64 << 20
const MIB = 1 << 20
const ARRIVING_MOST = 3
type Owner = [key: string, organization: string | null]
const key = (id: string, organization: string): Owner => [id, organization]

describe('the memory of bodies', () => {
  test('a key has half of it, its organization three quarters, and all keys seven eighths', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const hold = (owner: Owner, bytes: number) => memory.open(...owner).hold(bytes)?.code ?? 'held'
    expect(hold(key('a', 'o'), 32 * MIB)).toBe('held')
    expect(hold(key('a', 'o'), MIB)).toBe('rate_limit_exceeded')
    expect(hold(key('b', 'o'), 16 * MIB)).toBe('held')
    expect(hold(key('b', 'o'), MIB)).toBe('rate_limit_exceeded')
    expect(hold(key('c', 'p'), 8 * MIB)).toBe('held')
    expect(hold(key('c', 'p'), MIB)).toBe('upstream_unavailable')
    expect(memory.takenBytes).toBe(56 * MIB)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5])('%p is no number of bytes, and takes nothing', (bytes) => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    expect(() => memory.open(...key('a', 'o')).hold(bytes)).toThrow()
    expect(memory.takenBytes).toBe(0)
  })

  test('small bodies find the last eighth when large ones have all that they may have', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    memory.open(...key('a', 'o')).hold(32 * MIB)
    memory.open(...key('b', 'p')).hold(24 * MIB)
    const small = (name: number) => memory.open(...key(`${name}`, `${name}`)).hold(LARGE_BODY_BYTES)
    for (let bytes = 56 * MIB; bytes < MOST; bytes += LARGE_BODY_BYTES) expect(small(bytes)).toBeNull()
    expect(small(MOST)).toMatchObject({ code: 'upstream_unavailable', retryAfterSeconds: 1 })
  })

  test('a refused body keeps what it has, and fewer bytes are always had', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const body = memory.open(...key('a', 'o'))
    expect(body.hold(30 * MIB)).toBeNull()
    expect(body.hold(33 * MIB)).not.toBeNull()
    expect(memory.takenBytes).toBe(30 * MIB)
    expect(body.hold(1)).toBeNull()
    expect(memory.takenBytes).toBe(1)
    body.close()
    // The work on it is known after its end too.
    expect([body.mostBytes, memory.takenBytes]).toEqual([30 * MIB, 0])
    // A piece of it that is read late takes nothing any more.
    expect([body.hold(MIB), memory.takenBytes]).toEqual([null, 0])
  })

  test('requests without an organization have an eighth beside it, and take nothing from those that have one', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const hold = (address: string, bytes: number) => memory.open(address, null).hold(bytes)?.code ?? 'held'
    expect(hold('192.0.2.1', 4 * MIB)).toBe('held')
    expect(hold('192.0.2.1', 1)).toBe('rate_limit_exceeded')
    expect(hold('192.0.2.2', 3 * MIB)).toBe('held')
    expect(hold('192.0.2.3', MIB)).toBe('upstream_unavailable')
    expect(memory.open(...key('a', 'o')).hold(32 * MIB)).toBeNull()
    expect(memory.open(...key('b', 'p')).hold(24 * MIB)).toBeNull()
  })

  test('bodies that arrive make room for who has less: the oldest of who has most', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const ended: string[] = []
    const arrive = (name: string, organization: string, bytes: number) => {
      const body = memory.open(...key(name, organization))
      const refused = body.hold(bytes)
      expect(body.arrive((why) => ended.push(`${name}: ${why.code}`))).toBeFunction()
      return { refused }
    }
    for (const name of ['a1', 'a2', 'a3']) arrive(name, 'a', 12 * MIB)
    arrive('b', 'b', 20 * MIB)
    expect(memory.takenBytes).toBe(56 * MIB)
    expect(arrive('c', 'c', 10 * MIB).refused).toBeNull()
    expect(ended).toEqual(['a1: rate_limit_exceeded'])
    // It would have more than any other then.
    expect(arrive('d', 'd', 25 * MIB).refused).toMatchObject({ code: 'upstream_unavailable' })
    expect([ended.length, memory.takenBytes]).toEqual([1, 54 * MIB])
  })

  test('of a key three arrive at once, of an organization ten times as many; each that has come or is closed makes room', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const arrive = (name: string, organization: string) => {
      const body = memory.open(...key(name, organization))
      return { body, end: body.arrive(() => expect.unreachable()) }
    }
    const [first, second] = [arrive('k0', 'o'), arrive('k0', 'o'), arrive('k0', 'o')]
    expect(arrive('k0', 'o').end).toMatchObject({ code: 'rate_limit_exceeded', retryAfterSeconds: 1 })
    if (typeof first.end === 'function') first.end()
    second.body.close()
    // Again, which gives nothing back.
    second.body.close()
    expect([arrive('k0', 'o').end, arrive('k0', 'o').end]).toEqual([expect.any(Function), expect.any(Function)])
    expect(arrive('k0', 'o').end).toMatchObject({ code: 'rate_limit_exceeded' })
    for (let count = 3; count < 30; count += 1) expect(arrive(`k${Math.floor(count / 3)}`, 'o').end).toBeFunction()
    expect(arrive('k10', 'o').end).toMatchObject({ code: 'rate_limit_exceeded' })
    expect(arrive('k10', 'p').end).toBeFunction()
  })

  test('bodies that have come are ended by nobody', () => {
    const memory = createBodyMemory(MOST, ARRIVING_MOST)
    const large = memory.open(...key('a', 'a'))
    large.hold(32 * MIB)
    const end = large.arrive(() => expect.unreachable())
    if (typeof end === 'function') end()
    memory.open(...key('b', 'b')).hold(24 * MIB)
    expect(memory.open(...key('c', 'c')).hold(MIB)).toMatchObject({ code: 'upstream_unavailable' })
  })

  test('whatever is held and given back, nothing is lost and no bound is passed', () => {
    const steps = fc.array(fc.tuple(fc.nat(9), fc.nat(12 * MIB), fc.boolean()), { maxLength: 200 })
    fc.assert(
      fc.property(steps, (taken) => {
        const memory = createBodyMemory(MOST, ARRIVING_MOST)
        const bodies = Array.from({ length: 10 }, (_, index) => {
          const name = `${index % 4}`
          const open = () => memory.open(...key(name, `${index % 2}`))
          return { name, bytes: 0, open, reservation: open() }
        })
        for (const [index, bytes, isClosing] of taken) {
          const body = bodies[index]
          if (body === undefined) return
          if (isClosing) body.reservation.close()
          if (isClosing) {
            body.bytes = 0
            body.reservation = body.open()
          } else if (body.reservation.hold(bytes) === null) body.bytes = bytes
          const of = (name: string) =>
            bodies.filter((each) => each.name === name).reduce((sum, each) => sum + each.bytes, 0)
          expect(memory.takenBytes).toBe(bodies.reduce((sum, each) => sum + each.bytes, 0))
          expect(memory.takenBytes).toBeLessThanOrEqual(MOST)
          for (const { name } of bodies) expect(of(name)).toBeLessThanOrEqual(MOST / 2)
        }
        for (const { reservation } of bodies) reservation.close()
        expect(memory.takenBytes).toBe(0)
      }),
    )
  })
})
