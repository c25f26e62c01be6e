/** A streamed answer as it is given again: the bytes that its first client got. Of its events only the texts are in memory. */

import { GrowingText } from '../../lib/growingText.ts'

/** Stands behind each text. JSON has none inside a text. */
const LINE_END = '\n'

/** Characters of events that are encoded at once. */
const BLOCK_CHARACTERS = 64 << 10

/** The parts of a stream around its texts. */
interface Around {
  /** Before the first text. */
  readonly opening: string
  /** Writes the event of a text that is given in JSON. Around the text, all events are the same. */
  readonly event: (json: string) => string
  /** Behind the last text. */
  readonly end: string
}

/** The texts of a stream's events. An event has some 200 bytes beside a text of five. */
export class KeptStream {
  private readonly texts = new GrowingText()
  private count = 0

  /** Remembers a text, as JSON. */
  add(json: string): void {
    this.texts.add(json + LINE_END)
    this.count += 1
  }

  /** Returns all events, written anew while they are read. */
  body({ opening, event, end }: Around) {
    const texts = this.texts.toString()
    const around = Buffer.byteLength(event('')) - LINE_END.length
    return {
      byteLength: Buffer.byteLength(opening) + Buffer.byteLength(texts) + this.count * around + Buffer.byteLength(end),
      *blocks(): Generator<Uint8Array> {
        let block = opening
        for (let at = 0; at < texts.length; ) {
          const lineEnd = texts.indexOf(LINE_END, at)
          block += event(texts.slice(at, lineEnd))
          at = lineEnd + LINE_END.length
          if (block.length < BLOCK_CHARACTERS) continue
          yield Buffer.from(block)
          block = ''
        }
        yield Buffer.from(block + end)
      },
    }
  }
}
