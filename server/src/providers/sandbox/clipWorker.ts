/** The thread for clips. Started by `clipWork.ts`. */

import { answerCalls } from '../../infra/threadCalls.ts'
import { type Clip, encodeClip } from './clip.ts'

answerCalls(async (clip: Clip) => {
  const bytes = await encodeClip(clip)
  return { answer: bytes, moved: [bytes.buffer] }
})
