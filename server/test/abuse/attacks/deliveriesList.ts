import { startReceiver } from '../../webhookReceiver.ts'
import { askInLines, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

/** As much of an answer as is kept, of a character that JSON writes with six. */
const ANSWER = '\u0001'.repeat(4_096)
const LINES = 20

export const deliveriesList: Attack = {
  name: 'lists of deliveries',
  about:
    'webhook tests whose receiver answers 500 and 4 KiB, and 20 lists of 200 deliveries at a time; a list had up to 49 MB.',
  async run(target, signal) {
    const receiver = await startReceiver((response) => response.writeHead(500).end(ANSWER))
    const body = { url: receiver.url, event_types: ['video.completed'] }
    const byStatus = await askInLines(target, signal, {
      lines: LINES,
      prepare: async (ask) => textOf((await ask('POST', '/webhook-endpoints', body)).json, 'id') ?? 'none',
      async work(ask, endpointId) {
        await ask('POST', `/manage/v1/webhook-endpoints/${endpointId}/test`)
        await ask('GET', '/manage/v1/deliveries?limit=200')
      },
    })
    receiver.stop()
    return byStatus
  },
}
