/** A streamed answer as it is written out, remembered so that it can be given again byte for byte. */
export class Recording<Part> {
  private readonly writePart: (part: Part) => string
  private readonly pieces: string[] = []
  private last: string | null = null

  /** `writePart` is called once for each part, in order. */
  constructor(writePart: (part: Part) => string) {
    this.writePart = writePart
  }

  write(part: Part): string {
    // It was written when the whole was asked for.
    if (this.last !== null) return this.last
    const piece = this.writePart(part)
    this.pieces.push(piece)
    return piece
  }

  /** All that was written and the last part, which {@link write} is asked for afterwards. */
  wholeWith(last: Part): Uint8Array {
    this.last = this.writePart(last)
    return new TextEncoder().encode(this.pieces.join('') + this.last)
  }

  /** What was asked for as the whole is none: another part comes in place of its last. */
  forgetLast(): void {
    this.last = null
  }
}

/**
 * Writes parts out one by one, and goes on to the end of them when nobody reads any more (C3): the work is done and
 * charged whole, for the client who asks again. `beforeWriting` is awaited for each part before it goes out.
 */
export async function* toItsEnd<Part>(
  parts: AsyncGenerator<Part, void>,
  recording: Recording<Part>,
  beforeWriting: (part: Part) => Promise<void> | undefined,
): AsyncGenerator<string, void> {
  let isOver = false
  const next = async (): Promise<string | null> => {
    const step = await parts.next().catch((error: unknown) => {
      isOver = true
      throw error
    })
    if (step.done) {
      isOver = true
      return null
    }
    await beforeWriting(step.value)
    return recording.write(step.value)
  }
  try {
    for (let piece = await next(); piece !== null; piece = await next()) yield piece
  } finally {
    while (!isOver) await next()
  }
}
