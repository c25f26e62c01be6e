/** A process that lost an Idempotency-Key to another one changes nothing of webhooks (D2). A trigger takes the key over in mid-transaction. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import { expectRefusal } from '../../test/acceptance/refusals.ts'
import type { TestKey } from '../../test/customer.ts'
import { startReceiver } from '../../test/webhookReceiver.ts'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: 'webhooks: { allow: [127.0.0.0/8] }' })
  // Each verb writes one of the two tables.
  await gateway.database.query(`
    create table given_up (key_id uuid);
    create function give_up() returns trigger language plpgsql as $$ begin
      update idempotent_attempts set attempt = gen_random_uuid(), slot = 900 where key_id in (select key_id from given_up);
      return null;
    end $$;
    create trigger give_up after insert or delete on webhook_endpoints for each statement execute function give_up();
    create trigger give_up after insert or update on webhook_sends for each statement execute function give_up();`)
})
afterAll(() => gateway.close())

/** All that the verbs change, but the state of a delivery, which the deliverer changes meanwhile. */
function rowsOf({ organizationId }: TestKey): Promise<unknown> {
  return gateway.database.query(
    `select (select jsonb_agg(id order by id) from webhook_endpoints where organization_id = $1::uuid) as endpoints,
      (select jsonb_agg(id order by id) from webhook_deliveries where organization_id = $1::uuid) as deliveries,
      (select jsonb_agg(s) from webhook_sends s where organization_id = $1::uuid) as sends`,
    [organizationId],
  )
}

test('endpoints, tests and redeliveries are not made, nor endpoints deleted, by a process that lost the key', async () => {
  const receiver = await startReceiver()
  const key = await gateway.customer()
  const made = await gateway.ask({
    path: '/webhook-endpoints',
    key,
    body: { url: receiver.url, event_types: ['video.completed'] },
    headers: { 'Idempotency-Key': 'first' },
  })
  expect(made.status).toBe(201)
  const { id } = made.json as { readonly id: string }
  const sent = await gateway.ask({ method: 'POST', path: `/manage/v1/webhook-endpoints/${id}/test`, key })
  const delivery = (sent.json as { readonly id: string }).id
  await receiver.until(1)

  const questions = [
    { path: '/webhook-endpoints', body: { url: 'https://example.com/other', event_types: ['video.completed'] } },
    { method: 'POST', path: `/manage/v1/webhook-endpoints/${id}/test` },
    { method: 'POST', path: `/manage/v1/deliveries/${delivery}/redeliver` },
    { method: 'DELETE', path: `/webhook-endpoints/${id}` },
  ]
  for (const question of questions) {
    const asked = { ...question, key, headers: { 'Idempotency-Key': JSON.stringify(question) } }
    const before = await rowsOf(key)
    await gateway.database.query('insert into given_up values ($1::uuid)', [key.id])
    const refused = await gateway.ask(asked)
    expectRefusal(refused, 'A', { status: 409, code: 'idempotency_conflict', says: /Another process/, retryAfter: 1 })
    expect(await rowsOf(key)).toEqual(before)
    // The other process died too: whoever asks next does it.
    await gateway.database.query('delete from given_up')
    const { status } = await gateway.ask(asked)
    expect([question, status < 300]).toEqual([question, true])
    expect(await rowsOf(key)).not.toEqual(before)
  }
  receiver.stop()
})
