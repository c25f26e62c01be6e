/** C9: what a chat request may say beyond the interface where the operator allows it. */

/** For each parameter the values with which OpenAI's endpoint does what it does without it. */
const NEUTRAL: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ['frequency_penalty', isZero],
  ['functions', isEmptyList],
  ['logit_bias', isEmptyObject],
  ['logprobs', isFalse],
  ['metadata', isEmptyObject],
  ['modalities', isTextAlone],
  ['n', isOne],
  ['presence_penalty', isZero],
  ['response_format', isTextFormat],
  ['service_tier', isAutomatic],
  ['stop', isEmptyList],
  ['store', isFalse],
  ['tool_choice', isAutomaticOrNone],
  ['tools', isEmptyList],
  ['top_logprobs', isZero],
  ['top_p', isOne],
])

/** Returns the body without the parameters that change nothing. The schema checks the rest as ever. */
export function withoutNeutral(body: unknown): unknown {
  if (!isObject(body)) return body
  const entries = Object.entries(body)
  const kept = entries.filter(([name, value]) => NEUTRAL.get(name)?.(value) !== true)
  // Own properties of any name, `__proto__` too: fromEntries defines them.
  return kept.length === entries.length ? body : Object.fromEntries(kept)
}

/** Text parts of one request. A body of the largest size has 300,000, which take 200 ms to join. */
export const TEXT_PARTS_MOST = 10_000

/**
 * Returns the body with each content that is a list of text parts as one string: their texts, one after another, with nothing between
 * them. Content with any other part, and that behind {@link TEXT_PARTS_MOST} parts, is left as it is, for the schema to refuse.
 */
export function withJoinedText(body: unknown): unknown {
  if (!isObject(body) || !('messages' in body) || !Array.isArray(body.messages)) return body
  const sent: readonly unknown[] = body.messages
  let left = TEXT_PARTS_MOST
  const messages = sent.map((message) => {
    if (!isObject(message) || !('content' in message) || !Array.isArray(message.content)) return message
    const parts: readonly unknown[] = message.content
    left -= parts.length
    if (parts.length === 0 || left < 0 || !parts.every(isTextPart)) return message
    return { ...message, content: parts.map(({ text }) => text).join('') }
  })
  return messages.some((message, index) => message !== sent[index]) ? { ...body, messages } : body
}

/** A field that is null counts as absent. */
function isTextPart(part: unknown): part is { readonly type: 'text'; readonly text: string } {
  if (!isObject(part) || !('type' in part) || part.type !== 'text') return false
  if (!('text' in part) || typeof part.text !== 'string') return false
  return Object.entries(part).every(([name, value]) => name === 'type' || name === 'text' || value === null)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isZero(value: unknown): boolean {
  return value === 0
}

function isOne(value: unknown): boolean {
  return value === 1
}

function isFalse(value: unknown): boolean {
  return value === false
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function isEmptyObject(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length === 0
}

function isTextAlone(value: unknown): boolean {
  return Array.isArray(value) && value.length === 1 && value[0] === 'text'
}

function isTextFormat(value: unknown): boolean {
  return isObject(value) && 'type' in value && value.type === 'text' && Object.keys(value).length === 1
}

function isAutomatic(value: unknown): boolean {
  return value === 'auto' || value === 'default'
}

function isAutomaticOrNone(value: unknown): boolean {
  return value === 'auto' || value === 'none'
}
