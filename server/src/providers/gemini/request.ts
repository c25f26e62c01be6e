import { toConversation } from '../dialect/conversation.ts'
import type { ChatCall } from '../dialect/spec.ts'

/** The path below the base URL. A model's name without a slash is one of `models/`; `tunedModels/x` is taken as it is. */
export function toPath(model: string): string {
  const name = model.includes('/') ? model : `models/${model}`
  return `/${name.split('/').map(encodeURIComponent).join('/')}:streamGenerateContent?alt=sse`
}

/** The body of `POST …:streamGenerateContent`. Throws `rejected` for what the API has no word for. */
export function toWire(call: ChatCall): string {
  const { system, turns } = toConversation(call.messages)
  return JSON.stringify({
    systemInstruction: system.length === 0 ? undefined : { parts: system.map(toPart) },
    contents: turns.map(({ role, texts }) => ({
      role: role === 'assistant' ? 'model' : role,
      parts: texts.map(toPart),
    })),
    // JSON leaves out what is undefined: null means that the model's own default applies.
    generationConfig: { maxOutputTokens: call.maxTokens ?? undefined, temperature: call.temperature ?? undefined },
  })
}

function toPart(text: string): { readonly text: string } {
  return { text }
}
