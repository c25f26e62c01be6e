import { toConversation } from '../dialect/conversation.ts'
import { type ChatCall, ProviderFailure } from '../dialect/spec.ts'

/** Where the Messages API's temperatures end. Ours go to 2; see docs/decisions/0025-other-apis-words.md. */
const MAX_TEMPERATURE = 1

/** The body of `POST …/messages`. Throws `rejected` for what the API has no word for. */
export function toWire(call: ChatCall): string {
  const { model, messages, outputTokens, temperature } = call
  if (temperature !== null && temperature > MAX_TEMPERATURE) {
    const message = `This model takes temperatures from 0 to ${MAX_TEMPERATURE}: lower it, or leave it out.`
    throw new ProviderFailure('rejected', 'a temperature above 1', { publicMessage: message })
  }
  const { system, turns } = toConversation(messages)
  return JSON.stringify({
    model,
    // It is required: without a limit of the client's it is the model's own.
    max_tokens: outputTokens,
    system: system.length === 0 ? undefined : system.map(toBlock),
    messages: turns.map(({ role, texts }) => ({ role, content: texts.map(toBlock) })),
    temperature: temperature ?? undefined,
    stream: true,
  })
}

function toBlock(text: string): { readonly type: 'text'; readonly text: string } {
  return { type: 'text', text }
}
