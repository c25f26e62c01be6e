import { describe, expect, test } from 'bun:test'
import { createBodyTurns } from './bodyTurns.ts'

const KIB = 1 << 10

/** Turns whose next one begins when the test says so. */
function stage() {
  let begin: (() => void) | null = null
  const turns = createBodyTurns((callback) => {
    expect(begin).toBeNull()
    begin = callback
  })
  const worked: string[] = []
  return {
    turns,
    worked,
    take(owner: string, bytes: number) {
      const turn = turns.take(owner, bytes)
      if (turn === null) worked.push(owner)
      else void turn.then(() => worked.push(owner))
    },
    async nextTurn() {
      const callback = begin
      begin = null
      callback?.()
      await Promise.resolve()
      return worked.splice(0)
    },
  }
}

describe('turns of small bodies', () => {
  test('one has 8 KiB of work and at most one body more; the others wait for the next', async () => {
    const { turns, worked, take, nextTurn } = stage()
    for (let body = 0; body < 12; body += 1) take('a', 3 * KIB)
    expect(worked.splice(0)).toHaveLength(3)
    expect(turns.waiting).toBe(9)
    for (let turn = 0; turn < 3; turn += 1) expect(await nextTurn()).toHaveLength(3)
    expect(turns.waiting).toBe(0)
    expect(await nextTurn()).toEqual([])
    take('a', 3 * KIB)
    expect(worked).toHaveLength(1)
  })

  test('bodies of up to 1 KiB never wait', () => {
    const { worked, take } = stage()
    take('a', 1_000 * KIB)
    for (let body = 0; body < 1_000; body += 1) take('a', KIB)
    expect(worked).toHaveLength(1_001)
  })

  test('owners take turns, however many bodies one of them brings', async () => {
    const { take, nextTurn } = stage()
    for (let body = 0; body < 9; body += 1) take('a', 4 * KIB)
    take('b', 4 * KIB)
    take('c', 4 * KIB)
    expect(await nextTurn()).toEqual(['a', 'a', 'a', 'b'])
    expect(await nextTurn()).toEqual(['c', 'a'])
    take('d', 4 * KIB)
    expect(await nextTurn()).toEqual(['a', 'd'])
    expect(await nextTurn()).toEqual(['a', 'a'])
  })
})
