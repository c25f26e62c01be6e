/** The messages of a call: mostly short, some long, some longer than their model takes. */

import type { Seeded } from '../faults/seeded.ts'
import { messageOf, spaced, WORDS, type Word, wordsIn, wordsMost } from './words.ts'

export interface PromptMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** C10: a prompt with more bytes for each token of context is refused. */
const BYTES_PER_CONTEXT_TOKEN = 64
/** Only models of so small a context are sent prompts that they do not take. */
const SMALL_CONTEXT_TOKENS = 4_096
const ROLES = ['system', 'user', 'assistant'] as const

/** The first message says the number of the call, so that a request that was not read to its end is known too. */
export function promptOf(
  random: Seeded,
  number: number,
  contextTokens: number,
  isFrugal: boolean,
): readonly PromptMessage[] {
  const first: PromptMessage = { role: 'user', content: messageOf(number) }
  if (contextTokens <= SMALL_CONTEXT_TOKENS && random.percent(2)) {
    const atMost = BYTES_PER_CONTEXT_TOKEN * contextTokens - first.content.length
    return [first, ...ofBytes(atMost + random.pick([-1, 0, 1, 2, 5_000]))]
  }
  return [first, ...more(random, isFrugal)]
}

/** Messages of all kinds of words; few words for those who have little. */
function more(random: Seeded, isFrugal: boolean): PromptMessage[] {
  const chance = random.between(1, 100)
  if (chance <= 45) return []
  if (chance <= 80 || isFrugal) return [filled(random, 1, isFrugal ? 20 : 60)]
  const count = chance <= 97 ? random.between(1, 3) : random.between(4, 12)
  return Array.from({ length: count }, () => filled(random, 50, Number.POSITIVE_INFINITY))
}

function filled(random: Seeded, least: number, most: number): PromptMessage {
  const word = random.pick(WORDS)
  const words = random.between(least, Math.min(most, wordsMost(word)))
  return { role: random.pick(ROLES), content: spaced(word).repeat(words) }
}

/** Messages of exactly so many bytes. */
function ofBytes(bytes: number): PromptMessage[] {
  const messages: PromptMessage[] = []
  const add = (content: string) => void messages.push({ role: 'user', content })
  let left = bytes
  const fill = (word: Word) => {
    const each = spaced(word).length
    for (; left >= each; left -= each * Math.min(Math.floor(left / each), wordsMost(word)))
      add(spaced(word).repeat(Math.min(Math.floor(left / each), wordsMost(word))))
  }
  fill('responsibilities')
  fill('a')
  if (left === 1) add('a')
  return messages
}

/** The tokens of all texts, and some for the form of each message. */
export function promptTokensOf(messages: readonly PromptMessage[]): number {
  return messages.reduce((sum, { content }) => sum + wordsIn(content), 0) + FORM_TOKENS_EACH * messages.length
}

/** As the README of the interface says that they are counted (C4). */
const FORM_TOKENS_EACH = 4

export const bytesOf = (messages: readonly PromptMessage[]) =>
  messages.reduce((sum, { content }) => sum + content.length, 0)
