/** The thread that works on large bodies. Started by `bodyWork.ts`. */

import { answerCalls, collectGarbageSoon, type Done } from '../infra/threadCalls.ts'
import { parseWhole } from './body.ts'
import type { BodyAnswer, BodyTask } from './bodyWork.ts'
import { parseForm } from './form.ts'
import { inflate } from './inflate.ts'

/** Work on more bytes leaves garbage that is collected at once: the thread is idle before its own collector would see to it. */
const GARBAGE_BYTES = 1 << 20

answerCalls(async (task: BodyTask): Promise<Done<BodyAnswer>> => {
  const isLarge = task.bytes.byteLength > GARBAGE_BYTES || task.kind === 'inflate'
  const done = await carryOut(task)
  if (isLarge) collectGarbageSoon()
  return done
})

async function carryOut(task: BodyTask): Promise<Done<BodyAnswer>> {
  const { bytes } = task
  switch (task.kind) {
    case 'parse':
      return { answer: { bytes, parsed: parseWhole(bytes) }, moved: [bytes.buffer] }
    case 'parseForm': {
      const parsed = await parseForm(bytes, task.contentType, task.partsMost)
      return { answer: { form: { bytes, parsed } }, moved: [bytes.buffer] }
    }
    case 'inflate': {
      const inflated = inflate(bytes, task.compression, task.mostBytes)
      return { answer: { inflated }, moved: typeof inflated === 'string' ? [] : [inflated.buffer] }
    }
  }
}
