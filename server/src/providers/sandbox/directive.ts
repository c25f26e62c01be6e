import { type FinishReason, ProviderFailure, type ProviderFailureKind } from '../dialect/spec.ts'

/** The behaviour that a call's own message asks of the sandbox; see README.md. */
export interface Directive {
  readonly tokens?: number
  readonly reasoning_tokens?: number
  readonly prompt_tokens?: number
  readonly cached_tokens?: number
  readonly first_token_ms?: number
  readonly tokens_per_second?: number
  readonly fail?: ProviderFailureKind
  readonly fail_after?: number
  readonly silent_after?: number
  readonly finish?: FinishReason
  readonly no_usage?: true
  /** Of videos: what becomes of the job, what is wrong with its clip, its length, and its pace. */
  readonly job?: 'failed' | 'content_policy' | 'lost' | 'stuck'
  readonly clip?: 'truncated' | 'html' | 'empty'
  readonly clip_seconds?: number
  readonly video_seconds_per_second?: number
}

/** The parts that mean something for videos only. */
export const VIDEO_PARTS: readonly string[] = [
  'job',
  'clip',
  'clip_seconds',
  'video_seconds_per_second',
] satisfies (keyof Directive)[]

interface NumberRule {
  readonly maximum: number
  readonly decimals?: true
}

/** Bounds: a reply is made in memory (100,000 tokens are some 600 KB); an hour is past every deadline. */
const NUMBERS: Readonly<Record<string, NumberRule>> = {
  tokens: { maximum: 100_000 },
  reasoning_tokens: { maximum: 100_000 },
  prompt_tokens: { maximum: 100_000_000 },
  cached_tokens: { maximum: 100_000_000 },
  first_token_ms: { maximum: 3_600_000 },
  tokens_per_second: { maximum: 1_000_000, decimals: true },
  fail_after: { maximum: 200_000 },
  silent_after: { maximum: 200_000 },
  clip_seconds: { maximum: 60, decimals: true },
  video_seconds_per_second: { maximum: 1_000_000, decimals: true },
}
const WORDS: Readonly<Record<string, readonly string[]>> = {
  fail: ['unavailable', 'timeout', 'faulty', 'misconfigured', 'rejected', 'context_length'],
  finish: ['stop', 'length', 'content_filter'],
  job: ['failed', 'content_policy', 'lost', 'stuck'],
  clip: ['truncated', 'html', 'empty'],
}
const FLAGS: readonly string[] = ['no_usage']
const NAMES = [...Object.keys(NUMBERS), ...Object.keys(WORDS), ...FLAGS].join(', ')

const OPENING = '[[sandbox'
const FORM = /\[\[sandbox((?:[ \t]+[^\s[\]]+)*)[ \t]*\]\]/

/**
 * Takes the directive out of a message. Throws a `rejected` ProviderFailure, which names the part that is wrong by its
 * place and never quotes it (it is part of a prompt).
 */
export function takeDirective(message: string): { directive: Directive; rest: string } {
  const start = message.indexOf(OPENING)
  if (start === -1) return { directive: {}, rest: message }
  if (message.indexOf(OPENING, start + 1) !== -1) throw wrong('there is more than one')
  const match = FORM.exec(message)
  if (match === null) throw wrong('write it as [[sandbox name=value name=value]]')
  const parts = (match[1] ?? '').split(/[ \t]+/).filter((part) => part !== '')
  const rest = `${message.slice(0, match.index)}${message.slice(match.index + match[0].length)}`.trim()
  return { directive: parse(parts), rest }
}

function parse(parts: readonly string[]): Directive {
  const found = new Map<string, string | number | true>()
  for (const [index, part] of parts.entries()) {
    const [name, value] = splitPart(part)
    const parsed = parseValue(name, value)
    if (typeof parsed === 'object') throw wrong(`part ${index + 1}: ${parsed.problem}`)
    if (found.has(name)) throw wrong(`part ${index + 1}: ${name} is given twice`)
    found.set(name, parsed)
  }
  if (found.has('fail_after') && !found.has('fail')) throw wrong('fail_after needs fail')
  if (found.has('fail') && found.has('silent_after')) throw wrong('fail and silent_after exclude each other')
  return Object.fromEntries(found) as Directive
}

function splitPart(part: string): [name: string, value: string | null] {
  const equals = part.indexOf('=')
  return equals === -1 ? [part, null] : [part.slice(0, equals), part.slice(equals + 1)]
}

function parseValue(name: string, value: string | null): string | number | true | { problem: string } {
  if (FLAGS.includes(name)) return value === null ? true : { problem: `${name} takes no value` }
  const words = Object.hasOwn(WORDS, name) ? WORDS[name] : undefined
  if (words !== undefined) {
    return value !== null && words.includes(value) ? value : { problem: `${name} must be one of ${words.join(', ')}` }
  }
  const rule = Object.hasOwn(NUMBERS, name) ? NUMBERS[name] : undefined
  if (rule === undefined) return { problem: `no such name; the names are ${NAMES}` }
  const form = rule.decimals === true ? /^\d{1,9}(\.\d{1,3})?$/ : /^\d{1,9}$/
  if (value !== null && form.test(value) && Number(value) <= rule.maximum) return Number(value)
  return { problem: `${name} must be a ${rule.decimals === true ? '' : 'whole '}number from 0 to ${rule.maximum}` }
}

/** The failure for a directive that can't be followed. */
export function wrong(problem: string): ProviderFailure {
  const text = `sandbox directive: ${problem}`
  return new ProviderFailure('rejected', text, { publicMessage: `The ${text}.` })
}
