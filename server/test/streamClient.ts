import type { Sink } from '../src/http/eventStream.ts'
import type { OwnSignal } from '../src/lib/callSignal.ts'

/** Bytes that it takes before anybody reads them. */
const TAKEN_BYTES = 16_384

/** The client of a stream: takes some bytes of it, and then nothing more until they are read. */
export class StreamClient implements Sink {
  private readonly gone: OwnSignal
  private readonly texts: string[] = []
  private ending: { readonly reason: unknown } | null = null
  private makeRoom = () => {}
  private wake = () => {}

  constructor(gone: OwnSignal) {
    this.gone = gone
  }

  /** The next text; null at the end. Rejects where the stream broke off. */
  async read(): Promise<string | null> {
    while (this.texts.length === 0) {
      if (this.ending?.reason === null) return null
      if (this.ending !== null) throw this.ending.reason
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
    const text = this.texts.shift() ?? ''
    this.makeRoom()
    return text
  }

  /** Hangs up. */
  cancel(): void {
    this.gone.abort(null)
  }

  write(text: string): number | Promise<number> {
    this.texts.push(text)
    this.wake()
    if (this.texts.reduce((sum, { length }) => sum + length, 0) < TAKEN_BYTES) return text.length
    return new Promise((resolve) => {
      this.makeRoom = () => resolve(text.length)
    })
  }

  flush(): void {}

  end(): void {
    this.close(null)
  }

  close(reason: unknown): void {
    this.ending ??= { reason }
    this.wake()
  }
}
