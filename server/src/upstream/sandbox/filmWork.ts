import { Worker } from 'node:worker_threads'
import type { Log } from '../../kernel/log.ts'
import type { Film } from './film.ts'
import type { FilmAnswer, FilmTask } from './filmWorker.ts'

/** Makes clips without holding up other calls. */
export interface FilmWork {
  /** An mp4; one is made after the other. */
  make(film: Film): Promise<Uint8Array>
  close(): Promise<void>
}

interface Waiting {
  resolve(bytes: Uint8Array): void
  reject(error: unknown): void
}

/** With one thread, started when first needed. When that fails, so do the clips given to it, and the next one starts another. */
export function createFilmWork(log: Log): FilmWork {
  const waiting = new Map<number, Waiting>()
  let worker: Worker | null = null
  let nextId = 0

  const giveUp = (error: unknown) => {
    worker = null
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }
  const start = (): Worker => {
    const started = new Worker(new URL('./filmWorker.ts', import.meta.url))
    const fail = (error: unknown) => {
      if (worker !== started) return
      log.error({ err: error, films: waiting.size }, 'the thread for simulated clips failed')
      giveUp(error)
    }
    started.on('message', ({ id, bytes }: FilmAnswer) => {
      waiting.get(id)?.resolve(bytes)
      waiting.delete(id)
    })
    started.on('error', fail)
    started.on('exit', (code) => fail(new Error(`it ended with code ${code}`)))
    // It has nothing to say unless it is asked, so it keeps no process alive.
    started.unref()
    return started
  }
  return {
    make(film) {
      worker ??= start()
      const asked = worker
      const task: FilmTask = { id: nextId++, film }
      return new Promise((resolve, reject) => {
        waiting.set(task.id, { resolve, reject })
        asked.postMessage(task)
      })
    },
    async close() {
      const ending = worker
      giveUp(new Error('the thread for simulated clips was ended'))
      await ending?.terminate()
    },
  }
}
