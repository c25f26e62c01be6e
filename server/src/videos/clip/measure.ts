import type { EncodedPacketSink } from 'mediabunny'
import type { Artifacts } from '../../infra/artifacts.ts'
import { inBlocks } from './block.ts'
import { checkBoxes } from './boxes.ts'
import { InvalidOutput, type ReadRange } from './clip.ts'

/** No model makes clips of an hour; what says so is wrong, or means to be. */
const SECONDS_MOST = 3_600
const CACHE_BYTES = 4 << 20

/** The package is large, and only videos need it. */
async function loadParser() {
  const parser = await import('mediabunny')
  // It would tell the console what is odd about a file; what matters of that is in the error.
  parser.Logging.level = parser.LogLevel.Silent
  return parser
}

/**
 * The seconds that an mp4 plays, from its packets: from the first one shown to the end of the last. Reads ranges of the file,
 * in bounded memory. Throws {@link InvalidOutput} where it is no playable mp4: another kind of file, cut off, without a
 * picture, of a length that can't be; and what reading the file throws. After an abort it reads no more and throws the signal's
 * reason.
 */
export async function measureSeconds(
  artifacts: Artifacts,
  name: string,
  bytes: number,
  signal: AbortSignal,
): Promise<number> {
  let failure: { readonly reason: unknown } | null = null
  const readNow: ReadRange = async (start, end) => {
    try {
      signal.throwIfAborted()
      return await readRange(artifacts, name, start, end)
    } catch (error) {
      failure ??= { reason: error }
      throw error
    }
  }
  const failed = () => failure
  const read = inBlocks(readNow, bytes)
  try {
    await checkBoxes(read, bytes)
    return await measure(read, bytes)
  } catch (error) {
    const other = failed()
    if (other !== null) throw other.reason
    if (error instanceof InvalidOutput) throw error
    // The parser meets what is no mp4 with errors of many kinds.
    throw new InvalidOutput(`it can't be read as an mp4: ${error instanceof Error ? error.name : 'unknown'}`)
  }
}

async function readRange(
  artifacts: Artifacts,
  name: string,
  start: number,
  end: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const stream = await artifacts.read(name, start, end - 1)
  if (stream === null) throw new Error(`the artifact ${name} is not there`)
  const range = new Uint8Array(end - start)
  let at = 0
  for await (const piece of stream) {
    range.set(piece, at)
    at += piece.byteLength
  }
  if (at < range.byteLength) throw new Error(`the artifact ${name} is shorter than it was`)
  return range
}

async function measure(read: ReadRange, bytes: number): Promise<number> {
  const { CustomSource, EncodedPacketSink, Input, MP4 } = await loadParser()
  const source = new CustomSource({ getSize: () => bytes, read, maxCacheSize: CACHE_BYTES })
  const input = new Input({ formats: [MP4], source })
  try {
    const track = await input.getPrimaryVideoTrack()
    if (track === null) throw new InvalidOutput('it has no picture')
    await checkPackets(new EncodedPacketSink(track))
    const [first, end] = [await track.getFirstTimestamp(), await track.computeDuration()]
    // Packets before zero are never shown: they are there to be decoded from.
    const seconds = end - Math.max(first, 0)
    if (seconds > 0 && seconds <= SECONDS_MOST) return seconds
    throw new InvalidOutput('its length can not be')
  } finally {
    input.dispose()
  }
}

/** The first and the last picture have bytes in the file. */
async function checkPackets(sink: EncodedPacketSink): Promise<void> {
  const packets = [await sink.getFirstPacket(), await sink.getPacket(Number.POSITIVE_INFINITY)]
  for (const packet of packets) {
    if (packet === null || packet.byteLength === 0) throw new InvalidOutput('it has no pictures')
  }
}
