import { type ChatMessage, ProviderFailure } from './spec.ts'

/** One side's say, for APIs in which user and assistant take turns. */
export interface ConversationTurn {
  readonly role: 'user' | 'assistant'
  /** In their order, none of them empty. */
  readonly texts: readonly string[]
}

export interface Conversation {
  /** The texts of all system messages, wherever they stood. */
  readonly system: readonly string[]
  /** At least one; no two of the same role in a row. */
  readonly turns: readonly ConversationTurn[]
}

/**
 * A conversation for APIs that keep the system's words apart, refuse empty text, and want the roles to take turns: messages
 * of one role in a row become one turn, with each text kept as it is. Throws `rejected` where nothing is left to answer.
 */
export function toConversation(messages: readonly ChatMessage[]): Conversation {
  const system: string[] = []
  const turns: { role: ConversationTurn['role']; texts: string[] }[] = []
  for (const { role, content } of messages) {
    if (content === '') continue
    const last = turns.at(-1)
    if (role === 'system') system.push(content)
    else if (last?.role === role) last.texts.push(content)
    else turns.push({ role, texts: [content] })
  }
  if (turns.length > 0) return { system, turns }
  const message = "This model needs a message of the role 'user' that is not empty."
  throw new ProviderFailure('rejected', 'nothing but system messages and empty ones', { publicMessage: message })
}
