import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes, randomUUID } from 'node:crypto'
import { TurnedClock } from '../../../test/clock.ts'
import { type FreshDatabase, freshDatabase } from '../../../test/postgres.ts'
import type { Authenticate } from '../../http/principal.ts'
import type { Queryable, SqlParameter } from '../../infra/postgres/database.ts'
import { type Authenticator, createAuthenticator } from './authenticate.ts'
import { createKey } from './create.ts'
import { type ApiKey, drawKey, hashKey } from './key.ts'
import { revokeKey } from './revoke.ts'
import { parseScopes } from './scopes.ts'
import { insertKey } from './store.ts'

const START_MS = Date.UTC(2030, 0, 1)
const ORGANIZATION = randomUUID()
const ADDRESS = () => '203.0.113.9'

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
  await fresh.database.query('insert into organizations (id, name, standing, created_at) values ($1, $2, $3, $4)', [
    ORGANIZATION,
    'acme',
    'established',
    new Date(START_MS),
  ])
})
afterAll(() => fresh.drop())

/** The real database, with a count of the queries, a gate that holds their answers back, and a way to be gone. */
class Watched implements Queryable {
  queries = 0
  gone = false
  gate: Promise<void> = Promise.resolve()
  /** Settles when the last query has been answered, before the gate. */
  read: Promise<unknown> = Promise.resolve()
  async query<Row>(text: string, parameters?: readonly SqlParameter[]): Promise<Row[]> {
    this.queries += 1
    if (this.gone) throw new Error('connection refused')
    const read = fresh.database.query<Row>(text, parameters)
    this.read = read
    const rows = await read
    await this.gate
    return rows
  }
  /** Holds all answers back until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.gate = promise
    return resolve
  }
}

let clock: TurnedClock
let database: Watched
let authenticator: Authenticator
let reported: unknown[]
let authenticate: Authenticate
beforeEach(() => {
  clock = new TurnedClock(START_MS)
  database = new Watched()
  reported = []
  authenticator = createAuthenticator({
    database,
    clock,
    report: (error) => reported.push(error),
    uses: { note: () => {} },
  })
  authenticator.onConfirmed(true)
  authenticate = authenticator.authenticate
})

async function makeKey(scope = 'full_access', expiresAtMs: number | null = null) {
  const scopes = parseScopes(scope)
  if (!scopes.ok) throw new Error(scopes.refusal.message)
  const { record, plaintext } = await createKey(
    { database: fresh.database, clock, randomBytes },
    { organizationId: ORGANIZATION, scopes: scopes.value, admin: false, expiresAtMs },
  )
  return { id: record.id, plaintext, header: `Bearer ${plaintext}` }
}

/** A key as the table has it. */
function record(): ApiKey {
  const never = { memberId: null, name: null, expiresAtMs: null, revokedAtMs: null }
  return {
    id: randomUUID(),
    organizationId: ORGANIZATION,
    scopes: 'read_only',
    admin: false,
    createdAtMs: START_MS,
    ...never,
  }
}

/** Hands the hash of a changed key to the authenticator, as the listener does with a notification. */
function hear(keyHash: string): void {
  authenticator.hear(keyHash)
}

/** Revokes in the database and, as the listener would, tells this process. */
async function revoke(key: { id: string; plaintext: string }): Promise<void> {
  await revokeKey({ database: fresh.database, clock }, key.id)
  hear(hashKey(key.plaintext))
}

const unknownHeader = () => `Bearer ${drawKey(randomBytes)}`
const INVALID = { ok: false, refusal: { code: 'invalid_api_key' } }
const UNAVAILABLE = { ok: false, refusal: { code: 'upstream_unavailable', retryAfterSeconds: 1 } }
const ACCEPTED = { ok: true, value: { organizationId: ORGANIZATION } }

describe('what a header is answered with', () => {
  test.each([null, undefined])('no header (%p): unauthenticated, without a query', async (header) => {
    expect(await authenticate(header, ADDRESS)).toMatchObject({ ok: false, refusal: { code: 'unauthenticated' } })
    expect(database.queries).toBe(0)
  })

  test('malformed: invalid_api_key, without a query and without being counted', async () => {
    const { plaintext, header } = await makeKey()
    const wrong = [
      '',
      'Bearer',
      'Bearer ',
      plaintext,
      `Basic ${plaintext}`,
      `Bearer ${plaintext}x`,
      `${header}, ${header}`,
    ]
    for (let round = 0; round < 20; round += 1) {
      for (const each of [
        ...wrong,
        `Bearer\t${plaintext}`,
        `Bearer ${plaintext.toLowerCase()}!`,
        `Token ${plaintext}`,
      ]) {
        expect(await authenticate(each, ADDRESS)).toMatchObject(INVALID)
      }
    }
    expect(database.queries).toBe(0)
    expect(await authenticate(header, ADDRESS)).toMatchObject(ACCEPTED)
  })

  test('a valid key: who it is, and what it may do', async () => {
    const key = await makeKey('serverless:write,billing:read', START_MS + 5_000)
    const answer = await authenticate(`bearer  ${key.plaintext}`, ADDRESS)
    const scopes = {
      shortcut: null,
      serverless: 'write',
      billing: 'read',
      webhooks: 'none',
      instances: 'none',
    } as const
    expect(answer).toEqual({
      ok: true,
      value: {
        kind: 'apiKey',
        id: key.id,
        organizationId: ORGANIZATION,
        scopes,
        admin: false,
        expiresAtMs: START_MS + 5_000,
        newUntilMs: null,
      },
    })
  })

  test('an unknown, a revoked and an expired key are answered alike', async () => {
    const revoked = await makeKey()
    await revoke(revoked)
    const expired = await makeKey('full_access', START_MS - 1)
    const answers = [unknownHeader(), revoked.header, expired.header].map((header) => authenticate(header, ADDRESS))
    const [first, ...rest] = await Promise.all(answers)
    expect(first).toMatchObject(INVALID)
    for (const answer of rest) expect(answer).toEqual(first as NonNullable<typeof first>)
  })
})

describe('memory', () => {
  test('a key seen before is answered at once, without a promise and without a query', async () => {
    const { header } = await makeKey()
    await authenticate(header, ADDRESS)
    const answer = authenticate(header, ADDRESS)
    expect(answer).not.toBeInstanceOf(Promise)
    expect(answer).toMatchObject(ACCEPTED)
    expect(database.queries).toBe(1)
  })

  test('a key in memory expires at its instant', async () => {
    const { header } = await makeKey('full_access', START_MS + 1_000)
    expect(await authenticate(header, ADDRESS)).toMatchObject(ACCEPTED)
    await clock.turn(999)
    expect(await authenticate(header, ADDRESS)).toMatchObject(ACCEPTED)
    await clock.turn(1)
    expect(await authenticate(header, ADDRESS)).toMatchObject(INVALID)
  })

  test('a revoked key is refused from the moment the news arrives', async () => {
    const key = await makeKey()
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(ACCEPTED)
    await revoke(key)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
  })

  test('a look-up that was under way when the key was revoked is not remembered and not shared', async () => {
    const key = await makeKey()
    const release = database.hold()
    const before = authenticate(key.header, ADDRESS)
    await database.read
    await revoke(key)
    database.gate = Promise.resolve()
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
    release()
    expect(await before).toMatchObject(ACCEPTED)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
  })

  test('an unknown key is remembered as such for 10 s, and no longer than the news of its creation', async () => {
    const header = unknownHeader()
    await authenticate(header, ADDRESS)
    await clock.turn(9_999)
    expect(authenticate(header, ADDRESS)).not.toBeInstanceOf(Promise)
    await clock.turn(1)
    expect(authenticate(header, ADDRESS)).toBeInstanceOf(Promise)
    expect(database.queries).toBe(2)

    const plaintext = drawKey(randomBytes)
    expect(await authenticate(`Bearer ${plaintext}`, ADDRESS)).toMatchObject(INVALID)
    await insertKey(fresh.database, record(), hashKey(plaintext))
    expect(await authenticate(`Bearer ${plaintext}`, ADDRESS)).toMatchObject(INVALID)
    hear(hashKey(plaintext))
    expect(await authenticate(`Bearer ${plaintext}`, ADDRESS)).toMatchObject(ACCEPTED)
  })

  test('callers that ask for one key at the same time share one query', async () => {
    const { header } = await makeKey()
    const answers = await Promise.all(Array.from({ length: 100 }, () => authenticate(header, ADDRESS)))
    for (const answer of answers) expect(answer).toMatchObject(ACCEPTED)
    expect(database.queries).toBe(1)
  })
})

describe('while news may be missed', () => {
  test('the database is asked each time, so that a revocation nobody told of is seen', async () => {
    const key = await makeKey()
    await authenticate(key.header, ADDRESS)
    authenticator.onConfirmed(false)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(ACCEPTED)
    await revokeKey({ database: fresh.database, clock }, key.id)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
    expect(database.queries).toBe(3)
  })

  test('no query is shared: one that began earlier may not have seen a revocation', async () => {
    const key = await makeKey()
    const release = database.hold()
    const before = authenticate(key.header, ADDRESS)
    await database.read
    authenticator.onConfirmed(false)
    database.gate = Promise.resolve()
    await revokeKey({ database: fresh.database, clock }, key.id)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
    release()
    await before
  })

  test('a key that was unknown is looked for again, so that a creation nobody told of is seen', async () => {
    const plaintext = drawKey(randomBytes)
    expect(await authenticate(`Bearer ${plaintext}`, ADDRESS)).toMatchObject(INVALID)
    authenticator.onConfirmed(false)
    await insertKey(fresh.database, record(), hashKey(plaintext))
    expect(await authenticate(`Bearer ${plaintext}`, ADDRESS)).toMatchObject(ACCEPTED)
  })

  test('a known key waits in a line of its own, whatever waits at its address', async () => {
    const { header } = await makeKey()
    await authenticate(header, ADDRESS)
    authenticator.onConfirmed(false)
    const release = database.hold()
    const waiting = Array.from({ length: 1_002 }, () => authenticate(unknownHeader(), ADDRESS))
    expect(await authenticate(unknownHeader(), ADDRESS)).toMatchObject(UNAVAILABLE)
    const known = authenticate(header, ADDRESS)
    release()
    expect(await known).toMatchObject(ACCEPTED)
    for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject(INVALID)
  })

  test('keys that were remembered before are forgotten when listening begins anew', async () => {
    const key = await makeKey()
    await authenticate(key.header, ADDRESS)
    authenticator.onConfirmed(false)
    await revokeKey({ database: fresh.database, clock }, key.id)
    authenticator.onConfirmed(true)
    expect(await authenticate(key.header, ADDRESS)).toMatchObject(INVALID)
  })
})

describe('unknown keys from one address', () => {
  test('are 401 without end, each looked up once; another key that is valid passes from there', async () => {
    const known = await makeKey()
    const other = await makeKey()
    await authenticate(known.header, ADDRESS)
    for (let count = 0; count < 200; count += 1)
      expect(await authenticate(unknownHeader(), ADDRESS)).toMatchObject(INVALID)
    expect(database.queries).toBe(201)
    const header = unknownHeader()
    for (let count = 0; count < 200; count += 1) expect(await authenticate(header, ADDRESS)).toMatchObject(INVALID)
    expect(database.queries).toBe(202)
    expect(authenticate(known.header, ADDRESS)).toMatchObject(ACCEPTED)
    expect(await authenticate(other.header, ADDRESS)).toMatchObject(ACCEPTED)
  })

  test('are 503 with Retry-After while 1,000 of them wait; keys from other addresses are looked up', async () => {
    const known = await makeKey()
    const other = await makeKey()
    await authenticate(known.header, ADDRESS)
    const release = database.hold()
    const waiting = Array.from({ length: 1_002 }, () => authenticate(unknownHeader(), ADDRESS))
    const refused = authenticate(unknownHeader(), ADDRESS)
    const elsewhere = authenticate(other.header, () => '203.0.113.10')
    expect(await refused).toMatchObject(UNAVAILABLE)
    expect(authenticate(known.header, ADDRESS)).toMatchObject(ACCEPTED)
    release()
    expect(await elsewhere).toMatchObject(ACCEPTED)
    for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject(INVALID)
  })

  test('addresses of one IPv6 /56 count as one', async () => {
    const release = database.hold()
    const waiting = Array.from({ length: 1_002 }, (_, index) =>
      authenticate(unknownHeader(), () => `2001:db8:0:${(index % 256).toString(16)}::1`),
    )
    expect(await authenticate(unknownHeader(), () => '2001:db8:0:ff::2')).toMatchObject(UNAVAILABLE)
    const beside = authenticate(unknownHeader(), () => '2001:db8:0:100::1')
    release()
    expect(await beside).toMatchObject(INVALID)
    await Promise.all(waiting)
  })
})

describe('the database gone', () => {
  test('is 503, never 401; it is reported and not remembered', async () => {
    const { header } = await makeKey()
    database.gone = true
    expect(await authenticate(header, ADDRESS)).toMatchObject(UNAVAILABLE)
    expect(reported).toHaveLength(1)
    database.gone = false
    expect(await authenticate(header, ADDRESS)).toMatchObject(ACCEPTED)
    database.gone = true
    expect(await authenticate(header, ADDRESS)).toMatchObject(ACCEPTED)
  })

  test('or silent: 503 after 5 s, and nothing is left waiting', async () => {
    const { header } = await makeKey()
    const release = database.hold()
    const answer = authenticate(header, ADDRESS)
    await clock.turn(5_000)
    expect(await answer).toMatchObject(UNAVAILABLE)
    release()
    expect(clock.pending).toBe(0)
  })

  test('or stalled: two queries are under way at most', async () => {
    const release = database.hold()
    const waiting = Array.from({ length: 1_000 }, (_, index) =>
      authenticate(unknownHeader(), () => `10.0.${index >> 8}.${index & 255}`),
    )
    expect(database.queries).toBe(2)
    release()
    for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject(INVALID)
    expect(database.queries).toBe(4)
  })
})
