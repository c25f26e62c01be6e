/** The check of callbacks' signatures, without a gateway. `gateway.test.ts` has one that Stripe's package signed. */

import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { Secret } from '../../lib/secret.ts'
import { verifyStripe } from './signature.ts'

const NOW_SECONDS = 1_800_000_000
const clock = { now: () => NOW_SECONDS * 1_000 + 999 }
const verify = verifyStripe(new Secret('whsec_right'), clock)

const BODY = new TextEncoder().encode('{"id":"evt_1","words":"Straße"}')
/** The first bytes of a character that does not end. */
const NO_UTF8 = new Uint8Array([...BODY, 0xf0, 0x9f])

function sign(bytes: Uint8Array, time: number | string = NOW_SECONDS, secret = 'whsec_right'): string {
  return createHmac('sha256', secret).update(`${time}.`).update(bytes).digest('hex')
}

/** Returns whether a callback is taken, or the beginning of its refusal. */
async function checked(header: string | null, bytes: Uint8Array): Promise<string> {
  const verified = await verify(new Headers(header === null ? {} : { 'Stripe-Signature': header }), bytes)
  return verified.ok ? 'taken' : verified.refusal.message.split(' ').slice(0, 3).join(' ')
}

const NOT_SIGNED = 'The signature of'
const NOT_UTF8 = 'The body of'
const right = sign(BODY)
const wrong = '0'.repeat(64)

test.each<[says: string, header: string | null, outcome: string]>([
  ['one signature', `t=${NOW_SECONDS},v1=${right}`, 'taken'],
  ['other schemes beside it', `t=${NOW_SECONDS},v1=${right},v0=${wrong}`, 'taken'],
  ['the signature of another secret first', `t=${NOW_SECONDS},v1=${wrong},v1=${right}`, 'taken'],
  ['spaces behind commas', `t=${NOW_SECONDS}, v1=${right}`, 'taken'],
  ['300 s old', `t=${NOW_SECONDS - 300},v1=${sign(BODY, NOW_SECONDS - 300)}`, 'taken'],
  ['301 s old', `t=${NOW_SECONDS - 301},v1=${sign(BODY, NOW_SECONDS - 301)}`, NOT_SIGNED],
  ['300 s ahead', `t=${NOW_SECONDS + 300},v1=${sign(BODY, NOW_SECONDS + 300)}`, 'taken'],
  ['301 s ahead', `t=${NOW_SECONDS + 301},v1=${sign(BODY, NOW_SECONDS + 301)}`, NOT_SIGNED],
  ['none', null, NOT_SIGNED],
  ['empty', '', NOT_SIGNED],
  ['no time', `v1=${right}`, NOT_SIGNED],
  ['two times', `t=${NOW_SECONDS},t=${NOW_SECONDS},v1=${right}`, NOT_SIGNED],
  ['a time that is no number', `t=1.8e9,v1=${sign(BODY, '1.8e9')}`, NOT_SIGNED],
  ['no signature', `t=${NOW_SECONDS}`, NOT_SIGNED],
  ['another scheme alone', `t=${NOW_SECONDS},v0=${right}`, NOT_SIGNED],
  ['a signature that is too short', `t=${NOW_SECONDS},v1=${right.slice(0, 62)}`, NOT_SIGNED],
  ['a signature of no hex digits', `t=${NOW_SECONDS},v1=${'z'.repeat(64)}`, NOT_SIGNED],
  ['a wrong signature', `t=${NOW_SECONDS},v1=${wrong}`, NOT_SIGNED],
  ['the signature of another time', `t=${NOW_SECONDS},v1=${sign(BODY, NOW_SECONDS - 1)}`, NOT_SIGNED],
  ['the signature of another secret', `t=${NOW_SECONDS},v1=${sign(BODY, NOW_SECONDS, 'whsec_other')}`, NOT_SIGNED],
])('a header with %s', async (_, header, outcome) => {
  expect(await checked(header, BODY)).toBe(outcome)
})

test('each byte of the body counts', async () => {
  const header = `t=${NOW_SECONDS},v1=${right}`
  for (let at = 0; at < BODY.length; at += 1) {
    const changed = new Uint8Array(BODY)
    changed[at] = (changed[at] ?? 0) ^ 1
    expect(await checked(header, changed)).toStartWith('The ')
  }
  expect(await checked(header, BODY.subarray(0, -1))).toBe(NOT_SIGNED)
  expect(await checked(header, new Uint8Array())).toBe(NOT_SIGNED)
})

test('bytes that are no UTF-8 are refused, the header first: signed or not', async () => {
  expect(await checked(null, NO_UTF8)).toBe(NOT_SIGNED)
  expect(await checked(`t=${NOW_SECONDS - 301},v1=${wrong}`, NO_UTF8)).toBe(NOT_SIGNED)
  expect(await checked(`t=${NOW_SECONDS},v1=${wrong}`, NO_UTF8)).toBe(NOT_UTF8)
  expect(await checked(`t=${NOW_SECONDS},v1=${sign(NO_UTF8)}`, NO_UTF8)).toBe(NOT_UTF8)
})

test('a blank secret is refused at the start: anybody could sign with it', () => {
  expect(() => verifyStripe(new Secret(' '), clock)).toThrow('the signing secret is blank')
})
