/** The thread that counts. Started by `tokenCounter.ts`. */

import { answerCalls } from '../io/workerCalls.ts'
import { countText } from './tokens.ts'

answerCalls((texts: readonly string[]) => {
  let tokens = 0
  for (const text of texts) tokens += countText(text)
  return { answer: tokens }
})
