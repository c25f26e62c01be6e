import { startReceiver } from '../../webhookReceiver.ts'
import { askInLines, firstIdOf, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

const LINES = 20

export const redeliveries: Attack = {
  name: 'redeliveries',
  about:
    '20 redeliveries at a time of one delivery, whose receiver answers 500: each is free, and asks for another attempt.',
  async run(target, signal) {
    const receiver = await startReceiver((response) => response.writeHead(500).end())
    const body = { url: receiver.url, event_types: ['video.completed'] }
    const byStatus = await askInLines(target, signal, {
      lines: LINES,
      async prepare(ask) {
        const endpointId = textOf((await ask('POST', '/webhook-endpoints', body)).json, 'id')
        await ask('POST', `/manage/v1/webhook-endpoints/${endpointId}/test`)
        return firstIdOf((await ask('GET', '/manage/v1/deliveries')).json) ?? 'none'
      },
      work: (ask, deliveryId) => ask('POST', `/manage/v1/deliveries/${deliveryId}/redeliver`),
    })
    receiver.stop()
    return byStatus
  },
}
