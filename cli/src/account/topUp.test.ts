import { expect, test } from 'bun:test'
import { testSystem } from '../../test/testSystem.ts'
import { runLine } from '../run.ts'

const PAGE = 'http://gateway.test/payments/local/checkouts/lcs_1'
const payment = (state: string, reason: string | null = null) => ({
  id: 'p1',
  kind: 'top_up',
  amount_cents: 2_000,
  state,
  reason,
  checkout_url: PAGE,
})

/** Tops up and waits; the server answers each look in turn, null: it can't be reached. The last one stays. */
async function topUp(looks: (object | null)[], interruptAt = -1) {
  const asked: string[] = []
  const made = testSystem({
    fetch: async (url, init) => {
      asked.push(`${init.method} ${url.replace('http://gateway.test', '')} ${init.body ?? ''}`.trim())
      if (init.method === 'POST') return Response.json(payment('open'), { status: 201 })
      const look = looks.length > 1 ? looks.shift() : looks[0]
      if (look === null || look === undefined) throw new Error('refused')
      return Response.json(look)
    },
  })
  let code: number | undefined
  const ended = runLine(['topup', '20', '--wait'], made.system).then((each) => {
    code = each
  })
  for (let second = 0; code === undefined && second < 3_600; second += 1) {
    if (second === interruptAt) made.interrupt()
    await made.clock.turn(1_000)
  }
  await ended
  return { code, asked, ...made.printed, pending: made.clock.pending }
}

test('it is waited for until it is paid, while the server is away too', async () => {
  const { code, asked, out, said, pending } = await topUp([
    payment('open'),
    null,
    payment('processing'),
    payment('paid'),
  ])
  expect([code, pending]).toEqual([0, 0])
  expect(said).toBe(`Pay $20.00 here:\n\n${PAGE}\n\n`)
  expect(out).toBe('Paid: $20.00 are in the balance.\n')
  expect(asked[0]).toBe('POST /manage/v1/top-ups {"amount_cents":2000}')
  expect(asked.slice(1)).toEqual(Array.from({ length: 4 }, () => 'GET /manage/v1/payments/p1'))
})

test.each<[object, number, string]>([
  [payment('failed', 'The card was declined.'), 1, 'the payment has failed: The card was declined.'],
  [payment('expired'), 1, 'the payment has expired: begin another'],
  [payment('open'), 1, 'the payment p1 is still open after 30 minutes'],
])('one that ends otherwise is no success', async (last, exitCode, says) => {
  const { code, out, said, pending } = await topUp([last])
  expect([code, out, pending]).toEqual([exitCode, '', 0])
  expect(said).toContain(says)
})

test('Ctrl-C leaves it, and it can still be paid', async () => {
  const { code, said } = await topUp([payment('open')], 5)
  expect([code, said.split('\n').at(-2)]).toEqual([130, 'tollgate: left the payment p1, which can still be paid'])
})
