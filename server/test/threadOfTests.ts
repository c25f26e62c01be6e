/** A thread for tests: doubles the numbers that it is given, in place, and fails as it is told. */

import { answerCalls } from '../src/infra/threadCalls.ts'

answerCalls(async (task: Uint8Array<ArrayBuffer> | 'throws' | 'rejects' | 'ends' | 'waits') => {
  if (task === 'throws') throw new Error('thrown')
  await Promise.resolve()
  if (task === 'rejects') throw new Error('rejected')
  if (task === 'ends') process.exit(3)
  if (task === 'waits') return new Promise<never>(() => {})
  task.forEach((number, index) => {
    task[index] = 2 * number
  })
  return { answer: task, moved: [task.buffer] }
})
