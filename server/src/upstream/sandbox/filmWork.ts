import { createWorkerCalls } from '../../io/workerCalls.ts'
import type { Log } from '../../kernel/log.ts'
import type { Film } from './film.ts'

/** Makes clips without holding up other calls. */
export interface FilmWork {
  /** An mp4; one is made after the other. */
  make(film: Film): Promise<Uint8Array>
  close(): Promise<void>
}

/** With one thread, started when first needed. When that fails, so do the clips given to it, and the next one starts another. */
export function createFilmWork(log: Log): FilmWork {
  const file = new URL('./filmWorker.ts', import.meta.url)
  const thread = createWorkerCalls<Film, Uint8Array>({ file, failed: 'the thread for simulated clips failed', log })
  return { make: (film) => thread.call(film), close: thread.close }
}
