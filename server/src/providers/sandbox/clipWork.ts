import { createThreadCalls } from '../../infra/threadCalls.ts'
import type { Log } from '../../lib/log.ts'
import type { Clip } from './clip.ts'

/** Makes clips without holding up other calls. */
export interface ClipWork {
  /** An mp4; one is made after the other. */
  make(clip: Clip): Promise<Uint8Array>
  close(): Promise<void>
}

/** With one thread, started when first needed. When that fails, so do the clips given to it, and the next one starts another. */
export function createClipWork(log: Log): ClipWork {
  const file = new URL('./clipWorker.ts', import.meta.url)
  const thread = createThreadCalls<Clip, Uint8Array>({ file, failed: 'the thread for simulated clips failed', log })
  return { make: (clip) => thread.call(clip), close: thread.close }
}
