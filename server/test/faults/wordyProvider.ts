/**
 * A provider of the dialect `openai` whose answers are as long as they happen to be, and whose tokens are smaller than
 * those that a gateway can see: what overspends, if anything does. It counts how many answers are open at once.
 */

/** Text of one event: short, so that nothing tells how many tokens it is but that it is one event. */
const WORD = ' hm'
/** It reports so many tokens for each hundred words: what the gateway could not see while they came. */
const TOKENS_A_HUNDRED_WORDS = 120
const PROMPT_TOKENS = 10

export interface WordyProvider {
  /** Ends in /v1. */
  readonly url: string
  /** Answers that are open now. */
  readonly open: number
  /** The most that were open at once. */
  readonly mostOpen: number
  /** Forgets that. */
  forget(): void
  stop(): Promise<void>
}

/** `wordsOf` says how long each answer is to be. */
export function startWordyProvider(wordsOf: () => number): WordyProvider {
  let open = 0
  let mostOpen = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch() {
      open += 1
      mostOpen = Math.max(mostOpen, open)
      const body = answer(wordsOf(), () => {
        open -= 1
      })
      return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    get open() {
      return open
    },
    get mostOpen() {
      return mostOpen
    },
    forget() {
      mostOpen = 0
    },
    stop: () => server.stop(true),
  }
}

/** Returns the usage of an answer of so many words. */
function usageOf(words: number): object {
  const completion = Math.ceil((words * TOKENS_A_HUNDRED_WORDS) / 100)
  return { prompt_tokens: PROMPT_TOKENS, completion_tokens: completion, total_tokens: PROMPT_TOKENS + completion }
}

function answer(words: number, onEnd: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let said = 0
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      // A turn of the event loop for each word: all answers grow at the same time.
      await new Promise((resolve) => setImmediate(resolve))
      const choice = said < words ? { delta: { content: WORD } } : { delta: {}, finish_reason: 'stop' }
      said += 1
      const chunk = JSON.stringify({ choices: [{ index: 0, ...choice }], usage: usageOf(Math.min(said, words)) })
      controller.enqueue(encoder.encode(`data: ${chunk}\n\n${said > words ? 'data: [DONE]\n\n' : ''}`))
      if (said <= words) return
      onEnd()
      controller.close()
    },
    cancel: onEnd,
  })
}
