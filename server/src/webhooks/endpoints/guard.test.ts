/** Addresses that webhooks may not reach, however they are written. */

import { expect, test } from 'bun:test'
import { PRIVATE_HOSTS } from '../../../test/privateHosts.ts'
import { parseNetworks } from '../../lib/networks.ts'
import { mayConnect, vetAddresses, vetUrl } from './guard.ts'

const NONE = parseNetworks([])
const LOOPBACK = parseNetworks(['127.0.0.0/8'])

const LABEL = 'a'.repeat(63)
/** The most characters that a name may have, 253. */
const LONGEST_NAME = `${LABEL}.${LABEL}.${LABEL}.${'b'.repeat(61)}`

/** Texts that are no URL that could be called at all. */
const MALFORMED = [
  'https://[fe80::1%25eth0]/',
  'https://[fe80::1%eth0]/',
  'https://[::1',
  'https://',
  'https://256.256.256.256/',
  'https://1.2.3.4.5/',
  'https://exa mple.com/',
  ' https://example.com/',
  'https://example.com/\t',
  'ht\ntps://example.com/',
  'https://exam\u0000ple.com/',
  'https://example.com:99999/',
  '//example.com/hook',
  '/hook',
  'ftp://example.com/',
  'file:///etc/passwd',
  'gopher://example.com/',
  'javascript:alert(1)',
  'https://user@example.com/',
  'https://user:password@example.com/',
  'https://:password@example.com/',
  `https://example.com/${'a'.repeat(2_048)}`,
  'https:///x',
  'https:////example.com/',
  'https:example.com',
  'https:/example.com/',
  'https:\\\\example.com',
  'https:\\/example.com',
  'https:/\\example.com',
  'https://\\example.com',
  'https://:443/',
  'https://?x',
  'https://#x',
  'https://example.com:0/',
  'https://example.com:00/',
  `https://example.com/${'é'.repeat(500)}`,
  'https://localhost../',
  'https://.localhost/',
  'https://127.0.0.1../',
  'https://example.com../',
  'https://a..b/',
  'https://.example.com/',
  'https://../',
  `https://${LABEL}a.example/`,
  `https://${'é'.repeat(60)}.example/`,
  `https://${LONGEST_NAME}b/`,
  `https://${'a'.repeat(60)}${`.${'a'.repeat(60)}`.repeat(31)}/`,
  'http://example.com/',
  'http://8.8.8.8/',
  'http://[2606:4700::1111]/',
]

test(`the corpus has ${PRIVATE_HOSTS.length} hosts`, () => {
  expect(new Set(PRIVATE_HOSTS).size).toBeGreaterThanOrEqual(60)
})

test.each(PRIVATE_HOSTS)('https and http to %s are refused', (host) => {
  for (const scheme of ['https', 'http']) expect(vetUrl(`${scheme}://${host}/hook`, NONE).ok).toBe(false)
})

test.each(MALFORMED)('%s is refused', (url) => {
  expect(vetUrl(url, NONE).ok).toBe(false)
})

test.each([
  'https://example.com/hook',
  'https://8.8.8.8/',
  'https://168.63.129.17/',
  'https://[2606:4700:4700::1111]:8443/x',
  'https://a.b.c.',
  `https://${LONGEST_NAME}/`,
  `https://${LONGEST_NAME}./`,
])('%s is taken', (url) => {
  expect(vetUrl(url, NONE)).toMatchObject({ ok: true })
})

test.each(['a..localhost', '.localhost', `${LABEL}a.localhost`])(
  '%s is no name, also where loopback is open',
  (host) => {
    expect(vetUrl(`http://${host}/`, LOOPBACK)).toMatchObject({ ok: false })
  },
)

test.each([
  ['https://example.com', 'https://example.com/'],
  ['HTTPS://Example.COM:443/Hook', 'https://example.com/Hook'],
  ['https://example.com/a/../b/./c', 'https://example.com/b/c'],
  ['https://example.com/%7Ea?x="', 'https://example.com/%7Ea?x=%22'],
  ['https://ex%61mple.com/', 'https://example.com/'],
  ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
  ['https://example.com\\hook', 'https://example.com/hook'],
  ['https://0x08080808/', 'https://8.8.8.8/'],
  ['https://example.com:08443/', 'https://example.com:8443/'],
])('%s is kept as %s', (text, url) => {
  expect(vetUrl(text, NONE)).toMatchObject({ ok: true, url })
})

test.each([
  ['http://127.0.0.1:3000/hook', true],
  ['https://127.9.9.9/hook', true],
  ['http://localhost:3000/hook', true],
  ['https://localhost/hook', true],
  ['http://0x7f.1/hook', true],
  ['http://[::1]/hook', false],
  ['http://[::ffff:127.0.0.1]/hook', false],
  ['http://10.0.0.1/hook', false],
  ['https://169.254.169.254/', false],
  ['http://example.com/hook', false],
  ['http://8.8.8.8/hook', false],
])('with 127.0.0.0/8 opened, %s: %p', (url, isTaken) => {
  expect(vetUrl(url, LOOPBACK).ok).toBe(isTaken)
})

test('localhost goes to the loopback address that is open, and is never looked up', () => {
  const literalOf = (url: string, networks: string[]) => {
    const vetted = vetUrl(url, parseNetworks(networks))
    return vetted.ok ? vetted.target.literal : null
  }
  expect(literalOf('http://localhost/', ['127.0.0.1'])).toBe('127.0.0.1')
  expect(literalOf('http://localhost/', ['::1'])).toBe('::1')
  expect(literalOf('http://localhost/', ['10.0.0.0/8'])).toBe(null)
})

const NAME = { isSecure: true, host: 'hook.example', literal: null }

/** The addresses among the corpus, as a resolver gives them. */
const PRIVATE_ADDRESSES = PRIVATE_HOSTS.map((host) => new URL(`https://${host}/`).hostname.replace(/^\[|\]$/g, ''))

test.each(PRIVATE_ADDRESSES)('a name that leads to %s is not connected to, whatever else it leads to', (address) => {
  expect(vetAddresses(NAME, [address], NONE)).toBe(null)
  expect(vetAddresses(NAME, ['8.8.8.8', address], NONE)).toBe(null)
  expect(vetAddresses(NAME, ['2606:4700::1111', address], NONE)).toBe(null)
})

test.each(['fe80::1%eth0', '8.8.8.8%eth0', '', '1', 'example.com', '8.8.8', '08.8.8.8'])(
  'what no resolver should give, %p, is not connected to',
  (address) => {
    expect(vetAddresses(NAME, [address], NONE)).toBe(null)
  },
)

test('public addresses are tried, IPv4 first', () => {
  expect(vetAddresses(NAME, ['2606:4700::1111', '8.8.8.8'], NONE)).toEqual(['8.8.8.8', '2606:4700::1111'])
  expect(vetAddresses(NAME, [], NONE)).toBe(null)
})

test('plain HTTP goes nowhere but to networks that were opened', () => {
  expect(mayConnect({ isSecure: false }, '8.8.8.8', NONE)).toBe(false)
  expect(mayConnect({ isSecure: false }, '127.0.0.1', LOOPBACK)).toBe(true)
  expect(mayConnect({ isSecure: true }, '127.0.0.1', LOOPBACK)).toBe(true)
  expect(mayConnect({ isSecure: true }, '127.0.0.1', NONE)).toBe(false)
})
