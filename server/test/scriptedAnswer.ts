import type { ChatAnswer, ChatEvent } from '../src/providers/dialect/spec.ts'

/** A provider's answer that a test wrote. */
export interface ScriptedAnswer extends ChatAnswer {
  /** How many events were taken. */
  readonly taken: number
  /** True when the reader left before the end, which cancels the provider's work. */
  readonly cancelled: boolean
}

export const text = (value: string): ChatEvent => ({ kind: 'text', text: value })
export const reasoning = (value: string): ChatEvent => ({ kind: 'reasoning', text: value })
export const finish = (reason: 'stop' | 'length' = 'stop'): ChatEvent => ({ kind: 'finish', reason })
export const usage = (promptTokens: number, completionTokens: number, cachedPromptTokens = 0): ChatEvent => ({
  kind: 'usage',
  usage: { promptTokens, cachedPromptTokens, completionTokens },
})

/** Plays its steps one a turn; a function is called and its promise waited for, an Error breaks the answer off. */
export function scriptedAnswer(steps: readonly (ChatEvent | Error | (() => Promise<void> | void))[]): ScriptedAnswer {
  let taken = 0
  let cancelled = false
  let ended = false
  return {
    get taken() {
      return taken
    },
    get cancelled() {
      return cancelled
    },
    [Symbol.asyncIterator]: () => {
      let index = 0
      return {
        async next() {
          for (;;) {
            const step = ended ? undefined : steps[index]
            index += 1
            if (step === undefined) {
              ended = true
              return { done: true, value: undefined }
            }
            if (step instanceof Error) {
              ended = true
              throw step
            }
            if (typeof step === 'function') await step()
            else {
              taken += 1
              return { done: false, value: step }
            }
          }
        },
        async return() {
          if (!ended) cancelled = true
          ended = true
          return { done: true, value: undefined }
        },
      }
    },
  }
}
