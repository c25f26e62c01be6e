import { afterAll, beforeAll, expect, test } from 'bun:test'
import { randomBytes, randomUUID } from 'node:crypto'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../../infra/clock.ts'
import { toAddress } from '../../infra/postgres/address.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Clock } from '../../lib/time.ts'
import { openListener } from '../../processes/listen.ts'
import { createAuthenticator } from './authenticate.ts'
import { createKey } from './create.ts'
import { drawKey } from './key.ts'
import { listKeyPage, listKeys } from './list.ts'
import { reconsiderKeysOf, reconsiderKeysOfMember } from './reconsider.ts'
import { revokeKey } from './revoke.ts'
import { parseScopes } from './scopes.ts'
import { KEYS_CHANNEL } from './store.ts'

const NOW_MS = Date.UTC(2030, 0, 1)
const ORGANIZATION = randomUUID()
const OTHER = randomUUID()

let nowMs = NOW_MS
const clock: Clock = { ...systemClock, now: () => nowMs }

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  for (const [id, name] of [
    [ORGANIZATION, 'acme'],
    [OTHER, 'other'],
  ] as const) {
    await fresh.database.query(
      `insert into organizations (id, name, standing, created_at) values ($1, $2, 'established', $3)`,
      [id, name, new Date(NOW_MS)],
    )
  }
})
afterAll(() => fresh.drop())

async function makeKey(
  organizationId = ORGANIZATION,
  admin = false,
  random: RandomBytes = (length) => randomBytes(length),
) {
  const scopes = parseScopes('billing:read,serverless:write')
  if (!scopes.ok) throw new Error(scopes.refusal.message)
  return await createKey(
    { database: fresh.database, clock, randomBytes: random },
    { organizationId, scopes: scopes.value, admin, expiresAtMs: NOW_MS + 1_000 },
  )
}

test('of a key only the SHA-256 is stored', async () => {
  const { record, plaintext } = await makeKey()
  const [row] = await fresh.database.query<{ text: string; hash: Uint8Array }>(
    'select to_jsonb(k)::text as text, hash from api_keys k where id = $1',
    [record.id],
  )
  expect(Buffer.from(row?.hash ?? []).toString('hex')).toBe(
    new Bun.CryptoHasher('sha256').update(plaintext).digest('hex'),
  )
  expect(row?.text).not.toContain(plaintext.slice('svc_live_'.length))
})

test('a key is listed as it was made, with its organization’s others and nobody else’s, oldest first', async () => {
  const organizationId = randomUUID()
  await fresh.database.query(
    `insert into organizations (id, name, standing, created_at) values ($1, 'listed', 'new', $2)`,
    [organizationId, new Date(NOW_MS)],
  )
  nowMs = NOW_MS
  const first = await makeKey(organizationId, true)
  nowMs = NOW_MS + 1
  const second = await makeKey(organizationId)
  await makeKey(OTHER)
  expect(await listKeys(fresh.database, organizationId)).toEqual(
    [first.record, second.record].map((record) => ({ ...record, lastUsedAtMs: null })),
  )
  expect(first.record).toMatchObject({ scopes: 'serverless:write,billing:read', admin: true, createdAtMs: NOW_MS })
  const all = (await listKeyPage(fresh.database, null, null, 1_000)).map((key) => key.id)
  expect(all).toContain(first.record.id)
  expect(all.length).toBeGreaterThanOrEqual(3)
})

test('a key revoked twice keeps its first instant', async () => {
  const { record } = await makeKey()
  nowMs = NOW_MS + 10
  expect(await revokeKey({ database: fresh.database, clock }, record.id)).toMatchObject({
    value: { revokedAtMs: nowMs },
  })
  nowMs = NOW_MS + 20
  expect(await revokeKey({ database: fresh.database, clock }, record.id)).toMatchObject({
    ok: true,
    value: { revokedAtMs: NOW_MS + 10 },
  })
})

test.each(['01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d', 'nonsense', ''])(
  'revoking %p, which is no key’s id, is refused',
  async (id) => {
    expect(await revokeKey({ database: fresh.database, clock }, id)).toMatchObject({
      ok: false,
      refusal: { code: 'not_found' },
    })
  },
)

test('a key for an organization that does not exist is not made', async () => {
  await expect(makeKey(randomUUID())).rejects.toThrow()
})

test('over a real listener, two processes accept a new key that they had refused, and refuse it once revoked', async () => {
  const processes = await Promise.all([listeningProcess(), listeningProcess()])
  // The key is drawn twice from the same bytes: here, to try it before it exists, and where it is made.
  const bytes = randomBytes(1_000)
  const plaintext = drawKey(bytesFrom(bytes))
  const news = () => Promise.all(processes.map((each) => each.heard(plaintext)))
  for (const each of processes) {
    expect(await each.authenticate(plaintext)).toMatchObject({ ok: false, refusal: { code: 'invalid_api_key' } })
  }
  nowMs = NOW_MS
  const creation = news()
  const { record } = await makeKey(ORGANIZATION, false, bytesFrom(bytes))
  await creation
  for (const each of processes) {
    expect(await each.authenticate(plaintext)).toMatchObject({ ok: true, value: { id: record.id } })
    expect(each.authenticate(plaintext)).not.toBeInstanceOf(Promise)
  }
  const revocation = news()
  await revokeKey({ database: fresh.database, clock }, record.id)
  await revocation
  for (const each of processes) {
    expect(await each.authenticate(plaintext)).toMatchObject({ ok: false, refusal: { code: 'invalid_api_key' } })
    await each.close()
  }
})

test("a change of a role tells of the member's keys with an admin's rights alone, a first payment of all that are not revoked", async () => {
  const [organizationId, userId, memberId] = [randomUUID(), randomUUID(), randomUUID()]
  await fresh.database.query(
    "insert into organizations (id, name, standing, created_at) values ($1, 'told', 'established', now())",
    [organizationId],
  )
  await fresh.database.query(
    "insert into users (id, name, email, created_at, updated_at) values ($1, 'Ada', 'ada@example.com', now(), now())",
    [userId],
  )
  await fresh.database.query(
    "insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $3, 'admin', now())",
    [memberId, organizationId, userId],
  )
  nowMs = NOW_MS
  const hashOf = async (admin: boolean, columns: string) => {
    const { record } = await makeKey(organizationId, admin)
    const [row] = await fresh.database.query<{ hash: string }>(
      `update api_keys set ${columns} where id = $1 returning encode(hash, 'hex') as hash`,
      [record.id],
    )
    return row?.hash ?? ''
  }
  const own = `member_id = '${memberId}'`
  const owned = await hashOf(true, own)
  const plain = await hashOf(false, own)
  await hashOf(true, `${own}, revoked_at = now()`)
  const long = await hashOf(true, `${own}, expires_at = '2029-12-31'`)
  const lately = await hashOf(true, `${own}, expires_at = '2029-12-31T23:30:00Z'`)
  const another = await hashOf(true, 'name = name')
  const told = await hearKeys()
  await fresh.database.transaction((tx) => reconsiderKeysOfMember(tx, memberId, NOW_MS))
  expect((await told.sofar()).sort()).toEqual([owned, lately].sort())
  await fresh.database.transaction((tx) => reconsiderKeysOf(tx, organizationId))
  expect((await told.sofar()).sort()).toEqual([owned, plain, long, lately, another].sort())
  await told.close()
})

/** Hears what is told of keys: `sofar` returns the hashes since it was called last. */
async function hearKeys() {
  const confirmed = Promise.withResolvers<void>()
  let hashes: string[] = []
  let fence = Promise.withResolvers<void>()
  const listener = openListener(toAddress(fresh.url), {
    clock: systemClock,
    channels: { [KEYS_CHANNEL]: (payload) => (payload === 'fence' ? fence.resolve() : void hashes.push(payload)) },
    onConfirmed: (is) => is && confirmed.resolve(),
  })
  await confirmed.promise
  return {
    async sofar() {
      fence = Promise.withResolvers<void>()
      await fresh.database.query("select pg_notify($1, 'fence')", [KEYS_CHANNEL])
      await fence.promise
      const heard = hashes
      hashes = []
      return heard
    },
    close: () => listener.close(),
  }
}

function bytesFrom(bytes: Uint8Array): RandomBytes {
  let used = 0
  return (length) => {
    used += length
    return bytes.subarray(used - length, used)
  }
}

/** An authenticator with a listener of its own, confirmed. */
async function listeningProcess() {
  const authenticator = createAuthenticator({
    database: fresh.database,
    clock,
    report: () => undefined,
    uses: { note: () => {} },
  })
  const confirmed = Promise.withResolvers<void>()
  const awaited = new Map<string, () => void>()
  const listener = openListener(toAddress(fresh.url), {
    clock: systemClock,
    channels: {
      [KEYS_CHANNEL]: (payload) => {
        authenticator.hear(payload)
        awaited.get(payload)?.()
      },
    },
    onConfirmed: (is) => {
      authenticator.onConfirmed(is)
      if (is) confirmed.resolve()
    },
  })
  await confirmed.promise
  return {
    authenticate: (plaintext: string) => authenticator.authenticate(`Bearer ${plaintext}`, () => '203.0.113.9'),
    /** Resolves when this process has been told of the key. */
    heard: (plaintext: string) =>
      new Promise<void>((resolve) => {
        awaited.set(new Bun.CryptoHasher('sha256').update(plaintext).digest('hex'), resolve)
      }),
    close: () => listener.close(),
  }
}
