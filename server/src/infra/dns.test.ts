import { expect, test } from 'bun:test'
import { systemResolve } from './dns.ts'

test('a name of the hosts file has its addresses, and one that can not be has none', async () => {
  expect(await systemResolve('localhost')).toContain('127.0.0.1')
  expect(systemResolve('nobody.invalid')).rejects.toThrow()
})
