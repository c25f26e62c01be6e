import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { adminPort } from './adminPort.ts'

const openAdminPort = (hosts: readonly string[]) =>
  adminPort({
    metrics: { text: async () => 'up 1\n', contentType: 'text/plain' },
    queues: async () => null,
    hosts,
    database: { query: async () => [] } as never,
    clock: new TurnedClock(),
    reasons: () => [],
    warnings: () => [],
  })

const statusOf = async (host: string | null, hosts: readonly string[] = [], path = '/metrics') => {
  const headers: HeadersInit = host === null ? {} : { Host: host }
  return (await openAdminPort(hosts)(new Request(`http://x.test${path}`, { headers }))).status
}

describe('a name that was made to lead to this machine is refused (DNS rebinding)', () => {
  test.each([
    'evil.example',
    'evil.example:9464',
    'localhost.evil.example',
    'evil-localhost',
    '0.0.0.0:9464',
    '127.0.0.1.evil.example',
    '127.0.0.2',
    '[::]',
    'localhost, evil.example',
    'localhost:9464:1',
    'localhost@evil.example',
    'evil.example#localhost',
  ])('%s', async (host) => {
    for (const path of ['/metrics', '/ready', '/x']) expect(await statusOf(host, [], path)).toBe(403)
  })

  test('and told what to do', async () => {
    const response = await openAdminPort([])(new Request('http://x.test/ready', { headers: { Host: 'evil.example' } }))
    expect(await response.text()).toContain('admin_hosts')
  })
})

test.each(['localhost', 'LOCALHOST:9464', '127.0.0.1', '127.0.0.1:80', '[::1]', '[::1]:9464', '', null])(
  'the loopback is answered on any port, and so is a request without a host: %p',
  async (host) => {
    expect(await statusOf(host)).toBe(200)
  },
)

test('the hosts of the setting are answered too', async () => {
  const hosts = ['metrics.internal', '[fd00::1]']
  for (const host of ['metrics.internal:9464', 'Metrics.Internal', '[FD00::1]:9464', 'localhost']) {
    expect(await statusOf(host, hosts)).toBe(200)
  }
  expect(await statusOf('other.internal', hosts)).toBe(403)
})
