/** The thread that counts. Started by `tokenCounter.ts`. */

import { answerCalls } from '../../infra/threadCalls.ts'
import { countText } from './tokens.ts'

answerCalls((slices: readonly (readonly string[])[]) => {
  const answer = slices.map((pieces) => pieces.reduce((tokens, piece) => tokens + countText(piece), 0))
  return { answer }
})
