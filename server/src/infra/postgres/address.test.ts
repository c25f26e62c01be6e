import { expect, test } from 'bun:test'
import { readHosts, toAddress } from './address.ts'

test.each([
  ['postgres://u:p@h:1/d?sslmode=require', ['postgres://u:p@h:1/d?sslmode=require'], []],
  ['postgres:///d?host=/run/postgresql', ['postgres:///d?host=/run/postgresql'], []],
  [
    'postgresql://u:p%2C@h1:1,[::1]:2,h3/d?sslmode=require&target_session_attrs=read-write',
    ['h1:1', '[::1]:2', 'h3'].map((host) => `postgresql://u:p%2C@${host}/d?sslmode=require`),
    ['read-write'],
  ],
  ['postgres://h1,h2/d?target_session_attrs=any', ['postgres://h1/d', 'postgres://h2/d'], ['any']],
])('%s names its hosts', (text, urls, targets) => {
  expect(readHosts(text)).toEqual({ urls, targets })
})

test.each(['mysql://h/d', 'h1,h2', '', 'postgres://h1:x,h2/d'])('%j names none', (text) => {
  expect(readHosts(text)).toBeNull()
})

test('a URL is an address that stays', async () => {
  const address = toAddress('postgres://h/d')
  await address.choose()
  expect(address.url).toBe('postgres://h/d')
  expect(toAddress(address)).toBe(address)
})
