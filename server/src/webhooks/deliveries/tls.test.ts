/** Deliveries over TLS: to the address that was vetted, to nobody but the host that was meant. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificateFor } from '../../../test/certificate.ts'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { readAuthorities } from '../../infra/authorities.ts'
import { createHttp } from '../../infra/httpClient/client.ts'

let house: WebhookHouse
let server: Server
let authorities: readonly string[]
const hosts: (string | undefined)[] = []
beforeAll(async () => {
  house = await openWebhookHouse()
  const own = await certificateFor('hook.test')
  const file = join(await mkdtemp(join(tmpdir(), 'tollgate-test-')), 'ca.pem')
  await writeFile(file, `An authority of ours:\n${own.cert}\n`)
  authorities = await readAuthorities(file)
  server = createServer(own, (request, response) => {
    hosts.push(request.headers.host)
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  server.close()
  await house.close()
})

async function deliver(name: string, trusted: readonly string[] | undefined): Promise<unknown> {
  const { port } = server.address() as AddressInfo
  const organizationId = await house.organization()
  await house.endpoint(organizationId, `https://${name}:${port}/hook`)
  const eventId = await house.publish(organizationId)
  const http = createHttp(house.clock, { idleMs: 0, ...(trusted === undefined ? {} : { authorities: trusted }) })
  await house.deliverer({ http, resolve: async () => ['127.0.0.1'] }).run()
  const [only] = await house.deliveries(eventId)
  return only?.log[0]
}

test('an authority of the setting is trusted beside the public ones', async () => {
  expect(authorities.length).toBeGreaterThan(50)
  expect(await deliver('hook.test', authorities)).toBe(204)
  expect(hosts.at(-1)).toMatch(/^hook\.test:\d+$/)
})

test('nobody else is trusted, and no certificate of another name', async () => {
  const before = hosts.length
  expect(await deliver('hook.test', undefined)).toBe('unreachable')
  expect(await deliver('other.test', authorities)).toBe('unreachable')
  expect(hosts).toHaveLength(before)
})

test('a file without a certificate, or none at all, is told in one sentence', async () => {
  expect(readAuthorities(join(import.meta.dirname, 'tls.test.ts'))).rejects.toThrow('holds no certificate')
  expect(readAuthorities('/nowhere/ca.pem')).rejects.toThrow("can't be read (ENOENT)")
})
