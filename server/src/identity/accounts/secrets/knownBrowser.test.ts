import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { systemRandom } from '../../../infra/random.ts'
import { isKnownBrowser, KNOWN_BROWSER_SECONDS, markBrowser } from './knownBrowser.ts'

const EMAIL = 'ada@example.com'

function house() {
  const keys = new Map([[1, new Uint8Array(32).fill(1)]])
  const passwords = new Map([[EMAIL, 'a hash']])
  const clock = new TurnedClock(1_800_000_000_000)
  const dataKeys = {
    take: () => ({ number: 1, key: new Uint8Array(32).fill(1), done: () => {} }),
    find: () => Promise.reject(new Error('a mark reads no keys anew')),
    peek: (number: number) => keys.get(number) ?? null,
  }
  const passwordHashOf = async (email: string) => passwords.get(email) ?? null
  return { keys, passwords, clock, dataKeys, random: systemRandom(), passwordHashOf }
}

test('a mark is known with its address alone, until it expires or its key goes', async () => {
  const own = house()
  const mark = await markBrowser(own, EMAIL)
  expect(await isKnownBrowser(own, mark, EMAIL)).toBe(true)
  expect(await isKnownBrowser(own, mark, 'eve@example.com')).toBe(false)
  await own.clock.turn(KNOWN_BROWSER_SECONDS * 1_000)
  expect(await isKnownBrowser(own, mark, EMAIL)).toBe(false)
  const other = house()
  const kept = await markBrowser(other, EMAIL)
  other.keys.clear()
  expect(await isKnownBrowser(other, kept, EMAIL)).toBe(false)
})

test('a mark ends with the password that its address had', async () => {
  const own = house()
  const mark = await markBrowser(own, EMAIL)
  own.passwords.set(EMAIL, 'another hash')
  expect(await isKnownBrowser(own, mark, EMAIL)).toBe(false)
  own.passwords.delete(EMAIL)
  expect(await isKnownBrowser(own, mark, EMAIL)).toBe(false)
  // An account that signs in by passkeys alone.
  const passkeys = await markBrowser(own, EMAIL)
  expect(await isKnownBrowser(own, passkeys, EMAIL)).toBe(true)
})

test('a mark with one character changed, and other texts, are not known', async () => {
  const own = house()
  const mark = await markBrowser(own, EMAIL)
  for (let at = 0; at < mark.length; at += 1) {
    const changed = `${mark.slice(0, at)}${mark[at] === '7' ? '8' : '7'}${mark.slice(at + 1)}`
    expect([at, await isKnownBrowser(own, changed, EMAIL)]).toEqual([at, false])
  }
  for (const text of [null, '', '1', 'x'.repeat(10_000), `${mark} `])
    expect(await isKnownBrowser(own, text, EMAIL)).toBe(false)
})
