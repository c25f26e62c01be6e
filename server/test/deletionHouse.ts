/** A gateway on which organizations with everything that one may have are deleted. */

import { expect } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from './accountsHouse.ts'
import type { TestKey } from './customer.ts'
import { payAt } from './paymentPages.ts'
import { until } from './until.ts'
import { BROWSER_ORIGIN, type Visitor } from './visitor.ts'

const SETTINGS = `
accounts: { registration: true }
public_url: ${BROWSER_ORIGIN}
payments: { provider: local }
webhooks: { allow: [127.0.0.0/8] }
rate_limit: { requests_per_second: 10000, burst: 100000 }
new_account_rate_limit: { requests_per_second: 10000, burst: 100000 }
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
  slow: { dialect: sandbox, video_seconds_per_second: 0.01 }
models:
  - id: svc/demo
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 1 }]
    targets: [{ provider: slow, model: sandbox }]
instances:
  driver: { kind: command, path: /bin/false }
  gpu_types: [{ name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 0, disk_gb_max: 100 }]
  apps: [{ name: server, image: 'server:1', port: 8080 }]
plans:
  - { key: small, name: Small, input_tokens_monthly: 1000, output_tokens_monthly: 1000, weekly_tokens: 1000, payment_price: local_2000_month }
`

export const ORGANIZATION = '/manage/v1/organization'
export const OPERATED = '/manage/v1/operator/organizations'

/** An organization whose owner registered it. */
export interface OwnedOrganization {
  readonly id: string
  readonly name: string
  readonly owner: Visitor
  readonly email: string
}

/** The things that an organization was given by {@link DeletionHouse.furnish}. */
export interface Furnished {
  readonly keys: readonly TestKey[]
  readonly videos: readonly string[]
  readonly member: Visitor
  /** The address of an open checkout. */
  readonly checkoutUrl: string
  /** The payment provider's id of the subscription. */
  readonly subscription: string
}

export interface DeletionHouse {
  readonly house: AccountsHouse
  /** The first person, who is an operator and owns `default`. */
  readonly operator: Visitor
  /** Registers somebody with an organization of their own, and gives it credit. */
  register(name: string, email: string, address?: string): Promise<OwnedOrganization>
  /** Gives it keys, a member, an invitation, a device login, endpoints, videos, an instance, auto-pay, a subscription and a checkout. */
  furnish(organization: OwnedOrganization): Promise<Furnished>
  /** Deletes it by its owner; returns the status. */
  remove(organization: OwnedOrganization, more?: object): Promise<number>
  /** Resolves once what is left of it is erased. */
  erased(organizationId: string): Promise<void>
  /** The rows of a table that are the organization's, as text. */
  rows(table: string, organizationId: string, where?: string): Promise<string[]>
  /** The disagreements of the ledger, as the operator's route has them. */
  disagreements(): Promise<unknown[]>
  close(): Promise<void>
}

export async function openDeletionHouse(): Promise<DeletionHouse> {
  const house = await openAccountsHouse({ settings: SETTINGS })
  const operator = await house.owner()
  const { database } = house.gateway
  const rows: DeletionHouse['rows'] = async (table, organizationId, where = 'true') => {
    const found = await database.query<{ row: string }>(
      `select t::text as row from ${table} t where organization_id = $1 and (${where})`,
      [organizationId],
    )
    return found.map(({ row }) => row)
  }
  return {
    house,
    operator,
    register: registering(house, operator),
    furnish: (organization) => furnish(house, organization),
    async remove({ owner, id, name }, more = {}) {
      return (await owner.call('DELETE', ORGANIZATION, { organization_id: id, name, ...more })).status
    },
    async erased(organizationId) {
      const done = "unique_key = 'now' and state = 'done'"
      await until(async () => (await rows('jobs', organizationId, done)).length === 1)
    },
    rows,
    async disagreements() {
      const response = await operator.call('GET', '/manage/v1/operator/ledger-check')
      const lines = (await response.text()).trimEnd().split('\n')
      return lines.map((line) => JSON.parse(line)).filter(({ type }) => type === 'disagreement')
    },
    close: () => house.gateway.close(),
  }
}

function registering(house: AccountsHouse, operator: Visitor): DeletionHouse['register'] {
  return async (name, email, address) => {
    await house.browser().fill('/account/register', { email })
    const owner = house.browser(address)
    const fields = { name: `Person of ${email}`, organization: name, new_password: 'a long enough phrase' }
    const entered = await owner.fill(await house.linkTo(email), fields)
    expect(entered.location).toBe('/account')
    const { organization } = await (await owner.call('GET', '/manage/v1/session')).json()
    const granted = await operator.call('POST', `${OPERATED}/${organization.id}/credits`, { amount_cents: 5_000 })
    expect(granted.status).toBe(201)
    return { id: organization.id, name, owner, email }
  }
}

async function furnish({ gateway, join, browser }: AccountsHouse, { id, owner, email }: OwnedOrganization) {
  const post = async (path: string, body: unknown, status = 201, headers: Record<string, string> = {}) => {
    const response = await owner.call('POST', path, body, headers)
    const json = await response.json()
    expect([path, response.status, json]).toEqual([path, status, expect.anything()])
    return json
  }
  const once = () => ({ 'Idempotency-Key': crypto.randomUUID() })
  const member = await join(owner, `member-of-${email}`)
  await post('/manage/v1/invitations', { email: `guest-of-${email}` }, 201, once())
  const keys: TestKey[] = []
  for (const more of [{ owner: 'organization', admin: true }, { owner: 'member' }]) {
    const made = await post('/manage/v1/keys', { name: `key of ${email}`, scope: 'full_access', ...more }, 201, once())
    keys.push({ id: made.id, key: made.key, organizationId: id })
  }
  await owner.call('PATCH', ORGANIZATION, { notify_addresses: [`notified-by-${email}`] })
  for (const path of ['one', 'two']) {
    const url = `http://127.0.0.1:9/${path}-of-${email}`
    await post('/webhook-endpoints', { url, event_types: ['video.completed'] }, 201, once())
  }
  const videos: string[] = []
  for (let count = 0; count < 3; count += 1) {
    const [key] = keys as [TestKey]
    const made = await gateway.post(key, '/videos', { model: 'svc/film', prompt: `prompt of ${email}`, seconds: 4 })
    expect(made.status).toBe(202)
    videos.push((await made.json()).id)
  }
  const name = `instance-of-${email.replace(/[^a-z]/g, '-')}`
  await post('/instances', { app: 'server', gpu_type: 'a100', name, expected_price_per_hour_cents: 0 }, 202, once())
  const saving = await post('/manage/v1/top-ups', { amount_cents: 2_000, save_payment_method: true })
  await payAt(gateway, saving.checkout_url, { card: 'succeeds', save: 'yes' })
  const agreed = await owner.call('PUT', '/manage/v1/auto-pay', {
    enabled: true,
    threshold_cents: 500,
    amount_cents: 2_000,
  })
  expect(agreed.status).toBe(200)
  const plan = await post('/billing/subscription/checkout', {}, 200)
  await payAt(gateway, plan.checkout_url, { card: 'succeeds' })
  const open = await post('/manage/v1/top-ups', { amount_cents: 1_500 })
  await logInMachine({ gateway, browser }, member, email)
  const [subscription] = await gateway.database.query<{ subscription: string }>(
    'select subscription from payment_subscriptions where organization_id = $1',
    [id],
  )
  return { keys, videos, member, checkoutUrl: open.checkout_url, subscription: subscription?.subscription ?? '' }
}

/** A machine asks for a key, and a member types its code. */
async function logInMachine(
  { gateway }: Pick<AccountsHouse, 'gateway' | 'browser'>,
  member: Visitor,
  email: string,
): Promise<void> {
  const body = { client_id: 'tollgate-cli', name: `machine of ${email}` }
  const { json } = await gateway.ask({ path: '/manage/v1/device/code', body, address: '203.0.113.77' })
  const claimed = await member.fill('/account/device', { code: (json as { user_code: string }).user_code })
  expect(claimed.location).toContain('/account/device/')
}
