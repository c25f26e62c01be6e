import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

/** Loads a file whose section `webhooks` is this. */
const load = (inner: string) =>
  loadSettings(`webhooks: { ${inner} }\n`, { environment: {}, directory: '/etc', fileExists: () => false })

function webhooksOf(inner: string) {
  const loaded = load(inner)
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.settings.fixed.webhooks
}

function problemsOf(inner: string): string {
  const loaded = load(inner)
  return loaded.ok ? '' : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`).join('\n')
}

test('where webhooks may go, whom they trust and when they are tried again is read', () => {
  const defaults = {
    allow: [],
    caFile: null,
    retryMs: [30_000, 300_000, 1_800_000, 7_200_000],
    testsPerMinute: 30,
    pendingMost: 10_000,
  }
  expect(webhooksOf('')).toEqual(defaults)
  const read = 'allow: [127.0.0.0/8, "::1"], retry_seconds: [1, 0x10], tests_per_minute: 7, pending_deliveries: 8'
  expect(webhooksOf(read)).toEqual({
    allow: ['127.0.0.0/8', '::1'],
    caFile: null,
    retryMs: [1_000, 16_000],
    testsPerMinute: 7,
    pendingMost: 8,
  })
  for (const [inner, problem] of [
    ['allow: [localhost]', 'webhooks.allow[0]'],
    ['allow: [127.0.0.0/33]', 'must be a network'],
    ['allow: ["127.1"]', 'must be a network'],
    ['ca_file: nowhere.pem', 'there is no such file'],
    ['retry_seconds: [0]', 'webhooks.retry_seconds[0]'],
    ['alow: []', 'allow'],
    ['tests_per_minute: 0', 'webhooks.tests_per_minute: must be at least 1'],
    ['tests_per_minute: 601', 'webhooks.tests_per_minute: must be at most 600'],
    ['pending_deliveries: 100001', 'webhooks.pending_deliveries: must be at most 100000'],
  ] as const) {
    expect(problemsOf(inner)).toContain(problem)
  }
})
