import type { TestKey } from '../customer.ts'

export interface VideoSeeds {
  /** Of clips that are there to be fetched. */
  readonly complete: readonly string[]
  /** Of jobs that go on for ever. */
  readonly underWay: readonly string[]
}

const EACH = 3

/** Asks for some videos of a quick model and of an endless one, and waits for the quick ones. */
export async function makeVideos(url: string, { key }: TestKey): Promise<VideoSeeds> {
  const headers = { Authorization: `Bearer ${key}` }
  const create = async (model: string): Promise<string> => {
    const body = JSON.stringify({ model, prompt: 'A gate', seconds: 1 })
    const answer = await fetch(`${url}/videos`, { method: 'POST', headers, body })
    if (!answer.ok) throw new Error(await answer.text())
    return ((await answer.json()) as { id: string }).id
  }
  const completed = async (id: string): Promise<string> => {
    for (;;) {
      const { status } = (await (await fetch(`${url}/videos/${id}`, { headers })).json()) as { status: string }
      if (status === 'completed') return id
      if (status !== 'queued' && status !== 'in_progress') throw new Error(`video ${id} is ${status}`)
    }
  }
  const several = (model: string) => Promise.all(Array.from({ length: EACH }, () => create(model)))
  const [complete, underWay] = [await several('svc/clip'), await several('svc/film')]
  return { complete: await Promise.all(complete.map(completed)), underWay }
}
