import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { TEST_XPUB } from '../deposits/depositHouse.ts'
import { openGateway } from '../gateway.ts'
import { metricsPage } from '../metricsPage.ts'

/** The port of nobody: chains whose nodes are away have their metrics all the same. */
const DEPOSITS = `
deposits:
  xpub: ${TEST_XPUB}
  chains:
    base: { rpc_urls: ['http://127.0.0.1:1'] }
    solana: { rpc_urls: ['http://127.0.0.1:1'] }
`

const gateway = await openGateway()
afterAll(() => gateway.close())

/** The samples of the metrics page, by name and labels. */
async function scrape(): Promise<Map<string, number>> {
  const samples = (await metricsPage(gateway.app)).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}

test('a paid call is seen in every metric of its way: request, first token, attempt, tokens, commit', async () => {
  const key = await gateway.customer()
  const usage = { prompt: 0, completion: 0 }
  for (const stream of [true, false]) {
    const body = { model: 'svc/sandbox', stream, messages: [{ role: 'user', content: 'hi' }] }
    const text = await (await gateway.post(key, '/chat/completions', body)).text()
    usage.prompt += Number(/"prompt_tokens":(\d+)/.exec(text)?.[1])
    usage.completion += Number(/"completion_tokens":(\d+)/.exec(text)?.[1])
  }
  const samples = await scrape()
  expect(samples.get('tollgate_request_duration_seconds_count{route="POST /chat/completions",status="200"}')).toBe(2)
  expect(samples.get('tollgate_first_token_seconds_count')).toBe(1)
  expect(samples.get('tollgate_provider_attempt_duration_seconds_count{provider="sandbox",outcome="answered"}')).toBe(2)
  expect(samples.get('tollgate_tokens_total{model="svc/sandbox",class="prompt"}')).toBe(usage.prompt)
  expect(samples.get('tollgate_tokens_total{model="svc/sandbox",class="completion"}')).toBe(usage.completion)
  expect(samples.get('tollgate_tokens_total{model="svc/sandbox",class="cached_prompt"}')).toBeUndefined()
  expect(samples.get('tollgate_charge_batch_size_sum')).toBe(2)
  const labels = '{model="svc/sandbox",outcome="completed"}'
  expect(samples.get(`tollgate_charged_call_duration_seconds_count${labels}`)).toBe(2)
  const [row] = await gateway.database.query<{ cost: bigint }>('select sum(cost_microcents)::int8 as cost from charges')
  expect(samples.get(`tollgate_charged_microcents_total${labels}`)).toBe(Number(row?.cost))
  expect(samples.get('tollgate_money_wait_seconds_count')).toBeGreaterThan(0)
  expect(samples.get('tollgate_shares')).toBe(1)
  expect(samples.get('tollgate_shares_microcents')).toBeGreaterThan(0)
  for (const idle of ['held_microcents', 'waiting_share_renewals', 'waiting_token_counts', 'calls_waiting_for_money']) {
    expect(samples.get(`tollgate_${idle}`)).toBe(0)
  }
  expect(samples.get('tollgate_open_requests')).toBe(0)
  expect(samples.get('tollgate_unposted_charges')).toBe(0)
})

test('a refused request is counted by its route and status, and by nothing that the client wrote', async () => {
  await (await gateway.send('/models/svc%2Fcanary', { headers: { 'X-Request-Id': 'canary' } })).text()
  const samples = await scrape()
  expect(samples.get('tollgate_request_duration_seconds_count{route="GET /models/{id}",status="401"}')).toBe(1)
  expect([...samples.keys()].filter((name) => name.includes('canary'))).toEqual([])
})

test('a call that is refused for want of money is counted by its code', async () => {
  const key = await gateway.customer({ cents: 0 })
  const body = { model: 'svc/sandbox', messages: [{ role: 'user', content: 'hi' }] }
  expect((await gateway.post(key, '/chat/completions', body)).status).toBe(402)
  expect((await scrape()).get('tollgate_money_refusals_total{code="insufficient_balance"}')).toBe(1)
})

test('the dashboard shows every metric, and none that is not there', async () => {
  const file = new URL('../../../docs/dashboards/tollgate.json', import.meta.url)
  const named = new Set(
    readFileSync(file, 'utf8')
      .matchAll(/tollgate_\w+/g)
      .map(([name]) => name),
  )
  const withDeposits = await openGateway({ settings: DEPOSITS })
  const page = await metricsPage(withDeposits.app).finally(() => withDeposits.close())
  const types = new Map(page.matchAll(/^# TYPE (\w+) (\w+)$/gm).map(([, name = '', type]) => [name, type]))
  expect([...types.keys()]).toContain('tollgate_deposit_node_final_block')
  const isThere = (name: string) =>
    types.has(name) || types.get(name.replace(/_(bucket|sum|count)$/, '')) === 'histogram'
  expect(named.size).toBeGreaterThan(20)
  expect([...named].filter((name) => !isThere(name))).toEqual([])
  // And what there is can be seen on it.
  const shown = new Set([...named].flatMap((name) => [name, name.replace(/_(bucket|sum|count)$/, '')]))
  expect([...types.keys()].filter((name) => !shown.has(name))).toEqual([])
})
