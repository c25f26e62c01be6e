/** Operations are seen by the key that asked for them and, with a session, by the people of its organization. To all others there is none. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readAnswer } from '../../test/acceptance/ask.ts'
import type { Answer } from '../../test/acceptance/description.ts'
import { expectRefusal } from '../../test/acceptance/refusals.ts'
import { openRental, operationOf, RENTED, type Rental } from '../../test/acceptance/rental.ts'
import { ACCOUNT_SETTINGS, type AccountsHouse, openAccountsHouse } from '../../test/accountsHouse.ts'
import { makeKey, type TestKey } from '../../test/customer.ts'
import type { Visitor } from '../../test/visitor.ts'

let house: AccountsHouse
let rental: Rental
let owner: Visitor
let member: Visitor
/** Two of the organization of these people, and one of another. */
let key: TestKey
let colleague: TestKey
let stranger: TestKey
beforeAll(async () => {
  rental = await openRental({
    more: ACCOUNT_SETTINGS,
    async open(options) {
      house = await openAccountsHouse(options)
      return house.gateway
    },
  })
  owner = await house.owner()
  member = await house.join(owner, 'member@example.com')
  const { database, customer } = rental.gateway
  key = await makeKey(database, house.organizationId)
  colleague = await makeKey(database, house.organizationId, { admin: true })
  stranger = await customer()
})
afterAll(() => rental.close())

const idempotent = () => ({ 'Idempotency-Key': crypto.randomUUID() })

const rentedBy = async (visitor: Visitor) =>
  operationOf(await readAnswer(await visitor.call('POST', '/instances', RENTED, idempotent())))

const asKey = (asked: TestKey) => (id: string) => rental.gateway.ask({ path: `/operations/${id}`, key: asked })

const asPerson = (visitor: Visitor) => async (id: string) => readAnswer(await visitor.call('GET', `/operations/${id}`))

/** A caller who asks for an operation, and whether it is there for that caller. */
type Look = [who: string, ask: (id: string) => Promise<Answer>, isSeen: boolean]

async function expectSeen(operation: { readonly operation_id: string }, kind: string, looks: readonly Look[]) {
  for (const [who, ask, isSeen] of looks) {
    const answer = await ask(operation.operation_id)
    expect({ who, status: answer.status }).toEqual({ who, status: isSeen ? 200 : 404 })
    if (isSeen) expect(answer.json).toMatchObject({ operation_id: operation.operation_id, kind })
    else expectRefusal(answer, 'A', { status: 404, code: 'not_found' })
  }
}

test('what a person asked for is seen by the people of the organization alone: by no key of it, and by nobody of another', async () => {
  const made = await rentedBy(member)
  await expectSeen(made, 'instance.create', [
    ['the person', asPerson(member), true],
    ['another person of the organization', asPerson(owner), true],
    ['a key of the organization', asKey(key), false],
    ["an admin's key of the organization", asKey(colleague), false],
    ["another organization's key", asKey(stranger), false],
  ])
  const deleting = await owner.call('DELETE', `/instances/${made.resource_id}`, undefined, idempotent())
  await expectSeen(operationOf(await readAnswer(deleting)), 'instance.delete', [
    ['the person who deleted it', asPerson(owner), true],
    ['the person who created it', asPerson(member), true],
    ['a key of the organization', asKey(key), false],
    ["another organization's key", asKey(stranger), false],
  ])
})

test('what a key asked for is seen by it and the people of its organization, and by no other key', async () => {
  await expectSeen(operationOf(await rental.create(key)), 'instance.create', [
    ['the key', asKey(key), true],
    ['a person of its organization', asPerson(member), true],
    ["an admin's key of its organization", asKey(colleague), false],
    ["another organization's key", asKey(stranger), false],
  ])
})

test('a person sees the operations of the organization that the session acts for, and of no other that the person is in', async () => {
  const { database } = rental.gateway
  const { user, organization } = await (await member.call('GET', '/manage/v1/session')).json()
  await database.query(
    "insert into members (id, organization_id, user_id, role, created_at) values ($1, $2, $3, 'owner', now())",
    [crypto.randomUUID(), stranger.organizationId, user.id],
  )
  const own = await rentedBy(member)
  const theirs = operationOf(await rental.create(stranger))
  const actFor = (id: string) => member.call('PATCH', '/manage/v1/session', { organization_id: id })
  await expectSeen(own, 'instance.create', [['acting for it', asPerson(member), true]])
  await expectSeen(theirs, 'instance.create', [['acting for another', asPerson(member), false]])
  await actFor(stranger.organizationId)
  await expectSeen(own, 'instance.create', [['acting for another', asPerson(member), false]])
  await expectSeen(theirs, 'instance.create', [['acting for it', asPerson(member), true]])
  await actFor(organization.id)
  await expectSeen(own, 'instance.create', [['acting for it again', asPerson(member), true]])
})
