import type { ChatCall, ChatMessage } from '../dialect/spec.ts'
import { countTokens, splitTokens } from './tokens.ts'

/** Characters of the user's message that a reply repeats. */
const MAX_ECHO_CHARACTERS = 240

const SENTENCES = [
  'Nothing in it was thought about, but every token is counted, priced and charged like a real one.',
  'The same question gets the same answer, so a test can rely on it.',
  'The pace at which these words arrive is a setting, and a message can ask for another.',
  'To hear from a real model, add a provider to the settings file and name it in a model.',
  'A longer reply than its sentences need goes on like this until its tokens are used up.',
]

/** Where the last user message stands in a conversation, or -1. */
export function lastUserIndex(messages: readonly ChatMessage[]): number {
  return messages.findLastIndex((message) => message.role === 'user')
}

/** Tokens of the prompt: those of every message, and one for its role. */
export function countPromptTokens(messages: readonly ChatMessage[]): number {
  return messages.reduce((sum, message) => sum + 1 + countTokens(message.content), 0)
}

/**
 * The tokens of the reply to a call, the same for the same model and messages. `question` is the last user message
 * without its directive; `length` is the number of tokens wanted, or null for as many as the sentences have. At most
 * `limit` are made; `cut` tells whether there would have been more.
 */
export function replyTokens(
  call: Pick<ChatCall, 'model' | 'messages'>,
  question: string,
  length: number | null,
  limit: number,
): { tokens: string[]; cut: boolean } {
  const opening = `This is a simulated answer of the sandbox model ${call.model}. ${echo(question)}`
  const first = fingerprint(call.model, call.messages) % SENTENCES.length
  // One more than the limit shows whether something is cut off.
  const wanted = Math.min(length ?? Number.MAX_SAFE_INTEGER, limit + 1)
  let text = `${opening} ${SENTENCES[first]}`
  if (length !== null) text = extend(text, first, wanted)
  const tokens = splitTokens(text, wanted)
  if (tokens.length <= limit) return { tokens, cut: false }
  tokens.length = limit
  return { tokens, cut: true }
}

function extend(text: string, first: number, wanted: number): string {
  const parts = [text]
  let count = countTokens(text)
  for (let index = first + 1; count < wanted; index += 1) {
    const sentence = ` ${SENTENCES[index % SENTENCES.length]}`
    parts.push(sentence)
    count += countTokens(sentence)
  }
  return parts.join('')
}

function echo(question: string): string {
  const words = question.trim()
  if (words === '') return 'You wrote nothing.'
  if (words.length <= MAX_ECHO_CHARACTERS) return `You wrote: “${words}”.`
  return `Your message of ${words.length} characters begins: “${words.slice(0, MAX_ECHO_CHARACTERS).toWellFormed()}…”.`
}

/** FNV-1a over the model's name and the messages: cheap, and the same everywhere. */
function fingerprint(model: string, messages: readonly ChatMessage[]): number {
  let hash = mix(0x811c9dc5, model)
  for (const message of messages) hash = mix(mix(hash, message.role), message.content)
  return hash >>> 0
}

function mix(start: number, text: string): number {
  let hash = start
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash
}
