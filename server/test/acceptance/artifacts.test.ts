/** Several machines, each with a data directory of its own, that keep their artifacts in one S3-compatible store. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'
import { openS3 } from '../s3.ts'

let closeS3: () => Promise<void>
let one: Gateway
let other: Gateway
let elsewhere: string
let customer: TestKey
beforeAll(async () => {
  const { place, close } = await openS3()
  closeS3 = close
  const settings = `artifacts:
  s3: { endpoint: "${place.endpoint}", bucket: ${place.bucket}, access_key_id_env: S3_ID, secret_access_key_env: S3_KEY }
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/wide
    context_length: 131072
    max_output_tokens: 100000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: sandbox, model: sandbox }]
`
  const environment = { S3_ID: place.accessKeyId.reveal(), S3_KEY: place.secretAccessKey.reveal() }
  one = await openGateway({ settings, environment })
  elsewhere = await mkdtemp(join(tmpdir(), 'other-machine-'))
  // As TOLLGATE_DATA_KEY is the same on all machines.
  await copyFile(join(one.dataDirectory, 'data.key'), join(elsewhere, 'data.key'))
  const { databaseUrl } = one
  other = await openGateway({ settings, environment, beside: { databaseUrl, dataDirectory: elsewhere } })
  customer = await one.customer()
})
afterAll(async () => {
  await other.close()
  await one.close()
  await closeS3()
  await rm(elsewhere, { recursive: true })
})

test('a large answer that one machine has kept is given again by another', async () => {
  const body = { model: 'svc/wide', messages: [{ role: 'user', content: 'x [[sandbox tokens=80000]]' }] }
  const ask = (gateway: Gateway) => gateway.post(customer, '/chat/completions', body, { 'Idempotency-Key': 'wide-1' })
  const first = await ask(one)
  const text = await first.text()
  expect([first.status, text.length > 256 * 1024]).toEqual([200, true])
  const again = await ask(other)
  expect([again.status, again.headers.get('Idempotency-Replayed'), (await again.text()) === text]).toEqual([
    200,
    'true',
    true,
  ])
  for (const { dataDirectory } of [one, other]) expect(await readdir(dataDirectory)).not.toContain('artifacts')
  expect(await readdir(elsewhere)).toEqual(['data.key'])
})
