import { afterAll, expect, test } from 'bun:test'
import { openGateway } from '../gateway.ts'

const gateway = await openGateway()
afterAll(() => gateway.close())

/** The samples of the metrics page, by name and labels. */
async function scrape(): Promise<Map<string, number>> {
  const page = await (await gateway.app.handleAdmin(new Request('http://admin.test/metrics'))).text()
  const samples = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
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
  expect(samples.get('tollgate_upstream_attempt_duration_seconds_count{upstream="sandbox",outcome="answered"}')).toBe(2)
  expect(samples.get('tollgate_tokens_total{model="svc/sandbox",class="prompt"}')).toBe(usage.prompt)
  expect(samples.get('tollgate_tokens_total{model="svc/sandbox",class="completion"}')).toBe(usage.completion)
  expect(samples.get('tollgate_charge_batch_size_sum')).toBe(2)
  expect(samples.get('tollgate_open_requests')).toBe(0)
  expect(samples.get('tollgate_unposted_charges')).toBe(0)
})

test('a refused request is counted by its route and status, and by nothing that the client wrote', async () => {
  await (await gateway.send('/models/svc%2Fcanary', { headers: { 'X-Request-Id': 'canary' } })).text()
  const samples = await scrape()
  expect(samples.get('tollgate_request_duration_seconds_count{route="GET /models/{id}",status="401"}')).toBe(1)
  expect([...samples.keys()].filter((name) => name.includes('canary'))).toEqual([])
})
