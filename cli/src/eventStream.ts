import { createParser, type EventSourceMessage } from 'eventsource-parser'

/** An event of ours is far shorter; a longer one would fill the memory. */
const EVENT_CHARACTERS_MAX = 16 * 1024 * 1024

export interface EventListener {
  /** Called when bytes arrive, before their events are handed over. */
  readonly onBytes: () => void
  /** The stream is read further when this resolves. */
  readonly onMessage: (message: EventSourceMessage) => Promise<void> | void
  readonly onComment?: (comment: string) => void
}

/** Reads server-sent events until the stream ends, or breaks off. Rejects with what `onMessage` throws. */
export async function readEvents(response: Response, { onBytes, onMessage, onComment }: EventListener): Promise<void> {
  const messages: EventSourceMessage[] = []
  const parser = createParser({
    maxBufferSize: EVENT_CHARACTERS_MAX,
    onEvent: (message) => void messages.push(message),
    ...(onComment === undefined ? {} : { onComment }),
  })
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  for (;;) {
    const read = await reader?.read().catch(() => undefined)
    if (read === undefined || read.done) return
    onBytes()
    try {
      parser.feed(decoder.decode(read.value, { stream: true }))
    } catch {
      // The event is too long: to the caller the stream breaks off.
      await reader?.cancel().catch(() => {})
      return
    }
    for (const message of messages.splice(0)) await onMessage(message)
  }
}
