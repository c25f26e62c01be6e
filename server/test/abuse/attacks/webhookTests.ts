import { askInLines, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

/** A host that is never found, so that the attempts fail and are made again. */
const BODY = { url: 'https://hook.invalid/', event_types: ['video.completed'] }
const LINES = 16

export const webhookTests: Attack = {
  name: 'webhook tests',
  about: '16 webhook tests at a time, without an end; each left 3 KB of rows for a month and asked for a host.',
  run: (target, signal) =>
    askInLines(target, signal, {
      lines: LINES,
      prepare: async (ask) => textOf((await ask('POST', '/webhook-endpoints', BODY)).json, 'id') ?? 'none',
      work: (ask, endpointId) => ask('POST', `/manage/v1/webhook-endpoints/${endpointId}/test`),
    }),
}
