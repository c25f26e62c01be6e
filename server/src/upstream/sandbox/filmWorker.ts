/** The thread for clips. Started by `filmWork.ts`. */

import { answerCalls } from '../../io/workerCalls.ts'
import { type Film, makeFilm } from './film.ts'

answerCalls(async (film: Film) => {
  const bytes = await makeFilm(film)
  return { answer: bytes, moved: [bytes.buffer] }
})
