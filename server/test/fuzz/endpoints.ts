import type { TestKey } from '../customer.ts'

export interface EndpointSeeds {
  readonly ids: readonly string[]
  /** Of pages that are there. */
  readonly cursors: readonly string[]
}

const MADE = 4

/** Makes some webhook endpoints, and asks for the cursors of their pages. */
export async function makeEndpoints(url: string, { key }: TestKey): Promise<EndpointSeeds> {
  const path = `${url}/webhook-endpoints`
  const Authorization = `Bearer ${key}`
  const ids: string[] = []
  for (let count = 0; count < MADE; count += 1) {
    const body = JSON.stringify({ url: `https://hooks.example/seed${count}`, event_types: ['video.failed'] })
    const headers = { Authorization, 'Idempotency-Key': crypto.randomUUID() }
    const answer = await fetch(path, { method: 'POST', headers, body })
    if (!answer.ok) throw new Error(await answer.text())
    ids.push(((await answer.json()) as { id: string }).id)
  }
  const cursors: string[] = []
  for (let next: string | null = ''; next !== null; ) {
    const query: string = next === '' ? '' : `&cursor=${next}`
    const answer: Response = await fetch(`${path}?limit=1${query}`, { headers: { Authorization } })
    next = ((await answer.json()) as { next_cursor: string | null }).next_cursor
    if (next !== null) cursors.push(next)
  }
  return { ids, cursors }
}
