import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

const load = (text: string) => loadSettings(text, { environment: {}, directory: '/', fileExists: () => true })

test('hosts and origins are read', () => {
  const loaded = load(`
admin_hosts: [Metrics.internal, 10.0.0.7, "[fd00::1]"]
cors_origins: [https://app.example.com, http://localhost:3000, "http://[::1]:8080"]
`)
  expect(loaded).toMatchObject({
    ok: true,
    settings: {
      fixed: {
        adminHosts: ['metrics.internal', '10.0.0.7', '[fd00::1]'],
        corsOrigins: ['https://app.example.com', 'http://localhost:3000', 'http://[::1]:8080'],
      },
    },
  })
})

test('left out, there are none', () => {
  expect(load('log_level: info')).toMatchObject({ ok: true, settings: { fixed: { adminHosts: [], corsOrigins: [] } } })
})

test.each([
  ['admin_hosts: ["metrics.internal:9464"]', 'without a port'],
  ['admin_hosts: ["http://metrics.internal"]', 'without a port'],
  ['admin_hosts: ["*"]', 'without a port'],
  ['admin_hosts: [""]', 'without a port'],
  ['cors_origins: ["*"]', 'such as https://app.example.com'],
  ['cors_origins: ["null"]', 'such as https://app.example.com'],
  ['cors_origins: [app.example.com]', 'such as https://app.example.com'],
  ['cors_origins: ["file:///x"]', 'such as https://app.example.com'],
  ['cors_origins: [https://app.example.com/]', 'write https://app.example.com'],
  ['cors_origins: [https://App.example.com]', 'write https://app.example.com'],
  ['cors_origins: ["https://app.example.com:443"]', 'write https://app.example.com'],
  ['cors_origins: [https://app.example.com/path]', 'write https://app.example.com'],
])('%s is refused with what to write', (text, words) => {
  const loaded = load(text)
  expect(loaded.ok).toBe(false)
  const [problem] = loaded.ok ? [] : loaded.problems
  expect(problem?.path).toMatch(/^(admin_hosts|cors_origins)\[0\]$/)
  expect(problem?.reason).toContain(words)
})

test('a changed one needs a restart', async () => {
  const { changedFixed } = await import('./settings.ts')
  const [one, other] = [load('cors_origins: [https://a.test]'), load('admin_hosts: [b.test]')]
  if (!one.ok || !other.ok) throw new Error('both are good')
  expect(changedFixed(one.settings.fixed, other.settings.fixed)).toEqual(['admin_hosts', 'cors_origins'])
})
