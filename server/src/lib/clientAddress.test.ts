import { expect, test } from 'bun:test'
import { addressGroup, createClientAddress } from './clientAddress.ts'

test('without trusted proxies the header is the client’s own word and is not read', () => {
  expect(createClientAddress([])('203.0.113.9', '198.51.100.1')).toBe('203.0.113.9')
})

const PROXIES = ['10.0.0.0/8', '2001:db8:ffff::/48', '192.0.2.7']

test.each([
  ['from an untrusted socket', '203.0.113.9', '198.51.100.1', '203.0.113.9'],
  ['from a trusted one', '10.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['through several', '10.0.0.1', '198.51.100.1, 192.0.2.7, 10.2.3.4', '198.51.100.1'],
  ['with a forged left part', '10.0.0.1', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
  ['with nothing said', '10.0.0.1', null, '10.0.0.1'],
  ['with nothing in it', '10.0.0.1', '', '10.0.0.1'],
  ['all of it trusted', '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
  ['with nonsense', '10.0.0.1', '198.51.100.1, unknown, 10.0.0.2', '10.0.0.2'],
  ['with a bare number', '10.0.0.1', '7', '10.0.0.1'],
  ['with a port', '10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
  ['with a port and brackets', '10.0.0.1', '[2001:db8::5]:4711', '2001:db8::5'],
  ['over IPv6', '2001:db8:ffff::1', '2001:db8::5', '2001:db8::5'],
  ['over a dual-stack socket', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
])('the address of a request %s', (_, socketAddress, forwardedFor, expected) => {
  expect(createClientAddress(PROXIES)(socketAddress, forwardedFor)).toBe(expected)
})

test('an entry of trusted_proxies that is no address or CIDR is refused by name', () => {
  expect(() => createClientAddress(['10.0.0.0/8', 'proxy.local'])).toThrow(
    '"proxy.local" is neither an address nor a CIDR',
  )
  expect(() => createClientAddress(['10.0.0.0/33'])).toThrow('"10.0.0.0/33"')
})

test.each([
  ['198.51.100.1', '198.51.100.1'],
  ['::ffff:198.51.100.1', '198.51.100.1'],
  ['2001:db8:1:2fe:3:4:5:6', '2001:db8:1:200::/56'],
  ['2001:db8:1:3fe::9', '2001:db8:1:300::/56'],
  ['2001:db8::9', '2001:db8:0:0::/56'],
  ['unix', 'unix'],
])('%s is counted as %s', (address, group) => {
  expect(addressGroup(address)).toBe(group)
})
