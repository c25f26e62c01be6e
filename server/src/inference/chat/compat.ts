/** C9: what a chat request may say beyond the interface where the operator allows it, because it changes nothing. */

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
