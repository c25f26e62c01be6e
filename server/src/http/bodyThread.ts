/** The thread that works on large bodies. Started by `bodyWork.ts`. */

import { answerCalls, collectGarbageSoon, type Done } from '../infra/threadCalls.ts'
import { parseWhole } from './body.ts'
import type { BodyAnswer, BodyTask } from './bodyWork.ts'
import { inflate } from './inflate.ts'

/** Work on more bytes leaves garbage that is collected at once: the thread is idle before its own collector would see to it. */
const GARBAGE_BYTES = 1 << 20

answerCalls((task: BodyTask): Done<BodyAnswer> => {
  const { bytes } = task
  if (bytes.byteLength > GARBAGE_BYTES || task.kind === 'inflate') collectGarbageSoon()
  if (task.kind === 'parse') return { answer: { bytes, parsed: parseWhole(bytes) }, moved: [bytes.buffer] }
  const inflated = inflate(bytes, task.compression, task.mostBytes)
  return { answer: { inflated }, moved: typeof inflated === 'string' ? [] : [inflated.buffer] }
})
