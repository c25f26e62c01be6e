import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../test/accountsHouse.ts'
import type { Visitor } from '../../../test/visitor.ts'

const PATH = '/manage/v1/operator'

let house: AccountsHouse
let operator: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  operator = await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

const json = async (response: Response) => ({ status: response.status, body: await response.json() })
const get = async (path: string) => json(await operator.call('GET', `${PATH}${path}`))
const post = async (path: string, body: unknown, headers: Record<string, string> = {}) =>
  json(await operator.call('POST', `${PATH}${path}`, body, headers))

describe('organizations', () => {
  test('are made, listed on pages, the newest first, and shown', async () => {
    const made = await post('/organizations', { name: 'Made' })
    expect(made).toMatchObject({ status: 201, body: { name: 'Made', standing: 'established', notify_addresses: [] } })
    const fresh = await post('/organizations', { name: 'Fresh', standing: 'new' })
    const first = await get('/organizations?limit=2')
    expect(first.body.data.map(({ name }: { name: string }) => name)).toEqual(['Fresh', 'Made'])
    const second = await get(`/organizations?limit=2&cursor=${first.body.next_cursor}`)
    expect(second.body.data.at(-1).name).toBe('default')
    expect((await get(`/organizations/${fresh.body.id}`)).body).toMatchObject({
      name: 'Fresh',
      is_new: true,
      balance_microcents: '0',
      monthly_limit_microcents: null,
      plan_status: 'none',
      freezes: [],
    })
  })

  test.each([
    ['a name that is taken', { name: 'default' }],
    ['a name that is none', { name: ' ' }],
    ['a standing that is none', { name: 'Other', standing: 'old' }],
  ])('are not made with %s', async (_name, body) => {
    expect(await post('/organizations', body)).toMatchObject({ status: 422, body: { code: 'validation_failed' } })
  })

  test('that are not there are answered 404, whatever is asked of them', async () => {
    for (const id of [crypto.randomUUID(), 'nonsense']) {
      expect((await get(`/organizations/${id}`)).status).toBe(404)
      expect((await post(`/organizations/${id}/credits`, { amount_cents: 5 })).status).toBe(404)
      expect((await post(`/organizations/${id}/freezes`, { reason: 'operator' })).status).toBe(404)
      expect((await operator.call('DELETE', `${PATH}/organizations/${id}/freezes/operator`)).status).toBe(404)
    }
  })
})

describe('credit', () => {
  test('is granted once for an Idempotency-Key, in the ledger and the balance, and ends the limits of a new account', async () => {
    const { body: organization } = await post('/organizations', { name: 'Paid', standing: 'new' })
    const path = `/organizations/${organization.id}/credits`
    await post(path, { amount_cents: 5, promotional: true })
    expect((await get(`/organizations/${organization.id}`)).body.is_new).toBe(true)
    const key = { 'Idempotency-Key': crypto.randomUUID() }
    const granted = await post(path, { amount_cents: 1_250, note: 'invoice 7' }, key)
    expect(granted).toMatchObject({ status: 201, body: { organization_id: organization.id, amount_cents: 1_250 } })
    expect((await post(path, { amount_cents: 1_250, note: 'invoice 7' }, key)).body).toEqual(granted.body)
    expect((await get(`/organizations/${organization.id}`)).body).toMatchObject({
      balance_microcents: '1255000000',
      is_new: false,
    })
    const [entry] = await house.gateway.database.query<{ note: string }>(
      'select note from ledger_entries where source = $1',
      [granted.body.source],
    )
    expect(entry?.note).toBe('invoice 7')
  })

  test.each([[0], [-5], [1.5], [100_000_000_001]])('of %p cents is refused', async (amountCents) => {
    const answer = await post(`/organizations/${house.organizationId}/credits`, { amount_cents: amountCents })
    expect(answer).toMatchObject({ status: 422, body: { code: 'validation_failed' } })
  })
})

describe('a freeze', () => {
  test('is set and taken away by its reason, and the others stay', async () => {
    const { body: organization } = await post('/organizations', { name: 'Frozen' })
    const path = `/organizations/${organization.id}/freezes`
    await post(path, { reason: 'screening' })
    const frozen = await post(path, { reason: 'operator', note: 'ticket 812' })
    expect(frozen).toMatchObject({ status: 201 })
    expect((await get(`/organizations/${organization.id}`)).body.freezes).toEqual(frozen.body.freezes)
    expect(frozen.body.freezes.map(({ reason, note }: Record<string, unknown>) => [reason, note])).toEqual([
      ['screening', null],
      ['operator', 'ticket 812'],
    ])
    const left = await json(await operator.call('DELETE', `${PATH}${path}/operator`))
    expect([left.status, left.body.freezes.length]).toEqual([200, 1])
    expect((await operator.call('DELETE', `${PATH}${path}/operator`)).status).toBe(404)
    expect((await operator.call('DELETE', `${PATH}${path}/nonsense`)).status).toBe(404)
  })
})

test("changes are in the organization's audit log, which tells the customer no name, address, reason or note", async () => {
  const path = `/organizations/${house.organizationId}`
  await post(`${path}/credits`, { amount_cents: 3, note: 'secret note' })
  await post(`${path}/freezes`, { reason: 'screening', note: 'secret note' })
  const shown = await (await operator.call('GET', '/manage/v1/audit?limit=2')).json()
  expect(shown.data.map(({ action }: { action: string }) => action)).toEqual(['organization.frozen', 'credit.granted'])
  for (const { actor } of shown.data) expect(actor).toEqual({ kind: 'operator', id: null, address: null })
  expect(JSON.stringify(shown)).not.toMatch(/secret note|screening/)
  const rows = await house.gateway.database.query<{ actor_id: string | null; address: string | null }>(
    "select actor_id, address from audit_entries where actor_kind = 'operator'",
  )
  for (const { actor_id, address } of rows)
    expect([actor_id, address]).toEqual([expect.any(String), expect.any(String)])
})

describe('the installation', () => {
  test('shows its targets and its queues', async () => {
    const targets = await get('/targets')
    expect(targets.body.data.length).toBeGreaterThan(0)
    expect(targets.body.data[0]).toMatchObject({ state: 'closed', open_calls: 0 })
    expect(await get('/queues')).toMatchObject({ status: 200, body: { slow_endpoints: 0 } })
  })

  test('lists dead charges on pages', async () => {
    const ids = [1, 2, 3].map((last) => `01900000-0000-7000-8000-00000000000${last}`)
    for (const id of ids)
      await house.gateway.database.query(
        `insert into dead_charges (id, charge, reason, failed_at) values ($1, '{"costMicrocents":"5"}', 'refused', now())`,
        [id],
      )
    const first = await get('/dead-charges?limit=2')
    const second = await get(`/dead-charges?limit=2&cursor=${first.body.next_cursor}`)
    expect([...first.body.data, ...second.body.data].map(({ id }) => id)).toEqual(ids.toReversed())
    expect(first.body.data[0]).toMatchObject({ reason: 'refused', charge: { costMicrocents: '5' } })
    expect(second.body.next_cursor).toBeNull()
  })

  const check = async () => {
    const response = await operator.call('GET', `${PATH}/ledger-check`)
    expect(response.status).toBe(200)
    return (await response.text())
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  }

  test('checks the ledger: a row for each disagreement, and the last row says how many', async () => {
    expect((await check()).map(({ type }) => type)).toEqual(['check', 'end'])
    expect((await check()).at(-1)).toEqual({ type: 'end', agrees: true, disagreements: 0 })
    const { database } = house.gateway
    await database.query('update accounts set balance_microcents = balance_microcents + 1 where organization_id = $1', [
      house.organizationId,
    ])
    const rows = await check()
    expect(rows.at(-1)).toMatchObject({ type: 'end', agrees: false })
    expect(rows[1]).toMatchObject({ type: 'disagreement', kind: 'balance', organization_id: house.organizationId })
    await database.query('update accounts set balance_microcents = balance_microcents - 1 where organization_id = $1', [
      house.organizationId,
    ])
  })
})
