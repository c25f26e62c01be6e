import { expect, test } from 'bun:test'
import { Registry } from 'prom-client'
import { showGauges } from './gauges.ts'

test('gauges are read when the page is asked for, and labelled ones of two rooms are one metric', async () => {
  const registry = new Registry()
  let open = 1
  const inWork = (kind: string, counts: readonly number[]) => ({
    name: 'work',
    help: 'Work.',
    labelNames: ['kind'],
    readEach: () => counts.map((count) => [{ kind }, count] as const),
  })
  showGauges(registry, [{ name: 'open', help: 'Open.', read: () => open }, inWork('a', [2]), inWork('b', [3])])
  open = 7
  const page = await registry.metrics()
  expect(page).toContain('open 7')
  expect(page).toContain('work{kind="a"} 2')
  expect(page).toContain('work{kind="b"} 3')
})
