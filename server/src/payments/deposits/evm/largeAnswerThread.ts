/** The thread that parses large answers of nodes. Started by `largeAnswers.ts`. */

import { answerCalls } from '../../../infra/threadCalls.ts'
import { readAnswer } from '../chains/answer.ts'
import type { LargeAnswerTask } from './largeAnswers.ts'
import { eventsOf, receipt } from './shapes.ts'

answerCalls(({ bytes, events }: LargeAnswerTask) => ({
  answer: events === null ? readAnswer(bytes, receipt.nullable()) : readAnswer(bytes, eventsOf(events)),
}))
