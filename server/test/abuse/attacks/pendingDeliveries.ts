import { askInLines, firstIdOf, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

/** A host that is never found, so that deliveries stay pending for hours. */
const endpoint = (index: number) => ({ url: `https://hook.invalid/${index}`, event_types: ['video.completed'] })
const ENDPOINTS = 15
const LINES = 4

export const pendingDeliveries: Attack = {
  name: 'pending deliveries and video files',
  about:
    'Clips of a second, as many as the balance pays for, each of them kept for a day, fetched, and told to 15 endpoints that are never found.',
  leastSeconds: 10,
  run: (target, signal) =>
    askInLines(target, signal, {
      lines: LINES,
      async prepare(ask) {
        for (let made = 0; made < ENDPOINTS && !signal.aborted; made += 1)
          await ask('POST', '/webhook-endpoints', endpoint(made))
        return firstIdOf((await ask('GET', '/models?modality=video')).json) ?? 'none'
      },
      async work(ask, model) {
        const body = { model, prompt: 'x', seconds: 1, size: '320x180' }
        const id = textOf((await ask('POST', '/videos', body)).json, 'id')
        if (id !== null) await ask('GET', `/videos/${id}/content`)
      },
    }),
}
