/** The thread for clips: takes a {@link FilmTask}, answers a {@link FilmAnswer}. Started by `filmWork.ts`. */

import { parentPort } from 'node:worker_threads'
import { type Film, makeFilm } from './film.ts'

export interface FilmTask {
  readonly id: number
  readonly film: Film
}

export interface FilmAnswer {
  readonly id: number
  readonly bytes: Uint8Array<ArrayBuffer>
}

parentPort?.on('message', ({ id, film }: FilmTask) => {
  void makeFilm(film).then((bytes) => {
    const answer: FilmAnswer = { id, bytes }
    parentPort?.postMessage(answer, [bytes.buffer])
  })
})
