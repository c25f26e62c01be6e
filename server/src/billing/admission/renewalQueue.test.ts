import { expect, test } from 'bun:test'
import { type Ask, RenewalQueue } from './renewalQueue.ts'
import { Share } from './share.ts'

/** A queue whose promises nobody waits for. */
function openQueue() {
  const queue = new RenewalQueue()
  const shares = new Map<string, Share>()
  const ask = (organizationId: string, kind: Ask['kind'], microcents = 0n) => {
    const share = shares.get(organizationId) ?? new Share(organizationId)
    shares.set(organizationId, share)
    const done = queue.add(share, microcents, { kind })
    done.catch(() => {})
    return done
  }
  const crowd = (name: string, count: number, kind: Ask['kind']) => {
    for (let each = 0; each < count; each += 1) void ask(`${name} ${each}`, kind, kind === 'admission' ? 5n : 0n)
  }
  const next = () => [...queue.next().keys()]
  return { queue, shares, ask, crowd, next }
}

test('calls come before what is given back, however long that waits, and what somebody asks for before what is idle', () => {
  const { queue, ask, crowd, next } = openQueue()
  crowd('idle', 88_000, 'idle')
  crowd('asked', 150, 'give_back')
  void ask('new', 'admission', 5n)
  void ask('running', 'extension', 5n)
  const first = next()
  expect(first.slice(0, 3)).toEqual(['new', 'running', 'asked 0'])
  expect(first.length).toBe(102)
  void ask('later', 'admission', 5n)
  const second = next()
  expect([second[0], second[1], second[51], second.length]).toEqual(['later', 'asked 100', 'idle 0', 101])
  expect(next().length).toBe(100)
  expect(queue.size).toBe(88_000 - 50 - 100)
})

test('beside many calls a few organizations give back all the same', () => {
  const { crowd, next } = openQueue()
  crowd('idle', 300, 'idle')
  crowd('call', 1_100, 'admission')
  const [first, second, third] = [next(), next(), next()]
  expect(first.slice(0, 500).every((name) => name.startsWith('call'))).toBe(true)
  expect([first, second, third].map((names) => names.filter((name) => name.startsWith('call')).length)).toEqual([
    500, 500, 100,
  ])
  expect([first, second, third].map((names) => names.filter((name) => name.startsWith('idle')).length)).toEqual([
    100, 100, 100,
  ])
})

test('a call of an organization that is about to give back takes it along to the front, in one renewal', () => {
  const { queue, ask, crowd, next } = openQueue()
  void ask('one', 'idle')
  crowd('idle', 200, 'idle')
  void ask('two', 'admission', 7n)
  void ask('one', 'give_back')
  void ask('one', 'admission', 5n)
  void ask('one', 'idle')
  expect(queue.size).toBe(202)
  const renewals = queue.next()
  expect([...renewals.keys()].slice(0, 2)).toEqual(['two', 'one'])
  expect(renewals.get('one')?.want()).toEqual({ admission: 5n, least: 5n, extension: 0n, giveBack: 0n })
  expect(next()).not.toContain('one')
})

test('all that wait are told when nothing can be asked, and can ask again', async () => {
  const { queue, shares, ask, next } = openQueue()
  const all = [ask('one', 'idle'), ask('two', 'give_back'), ask('three', 'admission', 5n)]
  for (const share of shares.values()) share.grantedMicrocents = 100n
  queue.failAll(new Error('away'))
  // The limits of those that were to give back may have changed: the next call asks before it spends.
  expect([...shares.values()].map(({ spendableMicrocents }) => spendableMicrocents)).toEqual([0n, 0n, 100n])
  expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(queue.size).toBe(0)
  void ask('two', 'admission', 5n)
  expect(next()).toEqual(['two'])
})

test('a reclaim is over without a question where nothing is left to give back by its turn; a change is not', async () => {
  const { shares, ask, next } = openQueue()
  const reclaims = [
    ask('reclaim', 'reclaim'),
    ask('call', 'reclaim'),
    ask('change', 'reclaim'),
    ask('spent', 'reclaim'),
  ]
  void ask('call', 'admission', 5n)
  void ask('change', 'give_back')
  for (const share of shares.values()) share.isCertain = true
  Object.assign(shares.get('spent') ?? {}, { grantedMicrocents: 5n, postedMicrocents: 5n })
  expect(next()).toEqual(['call', 'change', 'spent'])
  await reclaims[0]
  expect([shares.get('reclaim')?.openAsks, next()]).toEqual([0, []])
})
