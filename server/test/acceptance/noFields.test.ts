/**
 * Changes that have no fields, from the descriptions themselves: a body that is no JSON or has fields is refused (E6, E5), and
 * nothing is done.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../accountsHouse.ts'
import type { Visitor } from '../visitor.ts'
import type { Document } from './description.ts'

const UUID = '01900000-0000-7000-8000-000000000000'

let house: AccountsHouse
let owner: Visitor
let paths: string[]
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
  const { description, managed } = house.gateway
  paths = [...withoutFields(description, ''), ...withoutFields(managed, '/manage/v1')]
}, 60_000)
afterAll(() => house.gateway.close())

/** The changes whose description has no body, such as `DELETE /manage/v1/keys/{id}`. */
function withoutFields({ paths: all }: Document, base: string): string[] {
  return Object.entries(all).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method, operation]) => method !== 'get' && !('requestBody' in operation))
      .map(([method]) => `${method.toUpperCase()} ${base}${path}`),
  )
}

/** Sends a body as it is, by the owner's session. */
async function send(operation: string, body: string | undefined, headers: Readonly<Record<string, string>> = {}) {
  const [method = '', path = ''] = operation.split(' ')
  const session = await (await owner.call('GET', '/manage/v1/session')).json()
  const response = await house.gateway.send(path.replace(/\{\w+\}/g, UUID), {
    method,
    headers: {
      Cookie: [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      Origin: 'http://127.0.0.1:8080',
      'X-CSRF-Token': String(session.csrf_token),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  return { status: response.status, text: await response.text() }
}

const CANCEL = 'POST /videos/{id}/cancel'
/** The one that needs a key: it ends that key. */
const OWN_KEY = 'DELETE /manage/v1/key'

test('these are the changes without fields', () => {
  expect(paths.toSorted()).toEqual(
    [
      CANCEL,
      OWN_KEY,
      'DELETE /manage/v1/invitations/{id}',
      'DELETE /manage/v1/keys/{id}',
      'DELETE /manage/v1/members/{id}',
      'DELETE /manage/v1/operator/organizations/{id}/freezes/{reason}',
      'DELETE /manage/v1/sessions/{id}',
      'DELETE /webhook-endpoints/{id}',
      'POST /manage/v1/deliveries/{id}/redeliver',
      'POST /manage/v1/webhook-endpoints/{id}/test',
    ].toSorted(),
  )
})

test('malformed JSON, a field and a list are 422; nothing, blanks and an empty object are no fault', async () => {
  for (const operation of paths.filter((each) => each !== CANCEL && each !== OWN_KEY)) {
    const answers = []
    for (const body of ['{bad', '{"overlap_seconds":600}', '[]', undefined, '', ' \n', '{}', '{"x":null}'])
      answers.push((await send(operation, body)).status)
    expect([operation, ...answers]).toEqual([operation, 422, 422, 422, 404, 404, 404, 404, 404])
  }
  // Only Cancel ignores its body.
  const path = '/videos/none/cancel'
  const { status } = await house.gateway.ask({
    method: 'POST',
    path,
    key: await house.gateway.customer(),
    body: '{bad',
  })
  expect(status).toBe(404)
})

test('a key is neither revoked by a body with fields, nor is an Idempotency-Key used up; the message names query and fields', async () => {
  const made = await house.gateway.customer({ scopes: 'full_access', admin: true })
  const ask = (body: string | undefined, query = '') =>
    house.gateway.ask({
      method: 'DELETE',
      path: `/manage/v1/key${query}`,
      key: made.key,
      headers: { 'Idempotency-Key': 'once' },
      body,
    })
  const refused = await ask('{"overlap_seconds":600}', '?soon=yes')
  expect([refused.status, refused.text]).toEqual([422, expect.stringMatching(/'soon'.*'overlap_seconds'/)])
  expect((await ask('{bad')).status).toBe(422)
  expect((await ask(undefined)).status).toBe(204)
})
