/** A burst of webhook deliveries beside chat. */

import { systemRandom } from '../../src/infra/random.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { publishEvent } from '../../src/webhooks/publish.ts'
import { type Beside, besideChat, reportBeside } from './beside.ts'
import { keyOfOrganization, organizationId } from './books.ts'
import type { Scale } from './scale.ts'
import type { Side } from './side.ts'

/** Organizations with one endpoint each, over which the events are spread. */
const ENDPOINTS = 20
/** The setting of the gateway; the function that publishes is told it. */
const PENDING_MOST = 100_000
/** After the chat: how long the last deliveries may take. */
const ARRIVAL_LIMIT_MS = 60_000

const random = systemRandom()

export async function measureDeliveries(scale: Scale): Promise<void> {
  const [small, large] = scale.sides
  reportBeside(scale, `a burst of ${scale.deliveries} deliveries`, [
    await burst(scale, small),
    await burst(scale, large),
  ])
}

async function burst(scale: Scale, side: Side): Promise<Beside> {
  const seen = new Set<string>()
  let twice = 0
  let lastAtMs = 0
  const receiver = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { id } = (await request.json()) as { id: string }
      if (seen.has(id)) twice += 1
      seen.add(id)
      lastAtMs = performance.now()
      return new Response(null, { status: 204 })
    },
  })
  try {
    const endpoints = Math.min(ENDPOINTS, side.size.organizations)
    for (let n = 1; n <= endpoints; n += 1) await makeEndpoint(side, n, receiver.port ?? 0)
    let beganAtMs = 0
    const outcome = await besideChat(scale, side, async () => {
      beganAtMs = performance.now()
      await publish(side, endpoints, scale.deliveries)
    })
    const limitAtMs = performance.now() + ARRIVAL_LIMIT_MS
    while (seen.size < scale.deliveries && performance.now() < limitAtMs) await Bun.sleep(100)
    const seconds = ((lastAtMs - beganAtMs) / 1_000).toFixed(1)
    scale.table.note(
      `${side.name}: ${seen.size} of ${scale.deliveries} deliveries arrived within ${seconds} s of the burst, ${twice} of them twice`,
    )
    return outcome
  } finally {
    await receiver.stop(true)
  }
}

async function makeEndpoint({ port }: Side, n: number, receiverPort: number): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/webhook-endpoints`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${keyOfOrganization(n)}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': `scale-${n}`,
    },
    body: JSON.stringify({ url: `http://127.0.0.1:${receiverPort}/${n}`, event_types: ['video.completed'] }),
  })
  if (answer.status !== 201) throw new Error(`no endpoint was made: status ${answer.status}: ${await answer.text()}`)
}

/** Publishes all events in one transaction, so that all deliveries are due at once. */
async function publish(side: Side, endpoints: number, count: number): Promise<void> {
  const data = { video: { id: 'video_1', object: 'video', model: 'svc/clip', status: 'completed' } }
  await side.database.transaction(async (tx) => {
    for (let index = 0; index < count; index += 1) {
      const createdAtMs = Date.now()
      const id = uuidV7(createdAtMs, random)
      const event = {
        id,
        organizationId: organizationId(1 + (index % endpoints)),
        type: 'video.completed',
        createdAtMs,
        data,
      } as const
      await publishEvent(tx, event, PENDING_MOST)
    }
  })
}
