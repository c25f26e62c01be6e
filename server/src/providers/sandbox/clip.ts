import { createH264MP4Encoder } from 'h264-mp4-encoder'
import type { ImageSize } from '../dialect/spec.ts'
import { FRAMES_PER_SECOND } from './frames.ts'
import { type Plane, writeLines } from './lettering.ts'

const TITLE = 'SIMULATED VIDEO'

/** Of brightness, in the range that players expect. */
const PAPER = 225
const BAR = 190
const INK = 40
/** The bar crosses the picture once in so many frames. */
const BAR_FRAMES = 2 * FRAMES_PER_SECOND
const BAR_PIXELS = 24
/** Fastest, at a quality that leaves letters sharp; a frame that needs no other each second, so that players can seek. */
const ENCODING = { speed: 10, quantizationParameter: 30, groupOfPictures: FRAMES_PER_SECOND } as const

/** A clip to be made. */
export interface Clip {
  readonly lines: readonly string[]
  /** Both sides even. */
  readonly size: ImageSize
  readonly frames: number
  /** Decides on the colour. */
  readonly seed: number
}

/** An mp4 (H.264) in which a bar moves and every frame shows the lines, its time and its number. Takes the thread that it runs in. */
export async function encodeClip({ lines, size, frames, seed }: Clip): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height } = size
  const pixels = width * height
  const still = new Uint8Array(pixels).fill(PAPER)
  writeLines(planeOf(still, size), [TITLE, '', '', ...lines], INK)
  const frame = new Uint8Array((pixels * 3) / 2)
  // One colour for all of it: each of both parts is a quarter of the picture.
  frame.fill(112 + (seed & 0x1f), pixels, (pixels * 5) / 4)
  frame.fill(112 + ((seed >>> 5) & 0x1f), (pixels * 5) / 4)
  const encoder = await createH264MP4Encoder()
  try {
    Object.assign(encoder, { width, height, frameRate: FRAMES_PER_SECOND, ...ENCODING })
    encoder.initialize()
    for (let index = 0; index < frames; index += 1) {
      frame.set(still)
      drawBar(frame, size, index)
      const seconds = (index / FRAMES_PER_SECOND).toFixed(3).padStart(7, '0')
      writeLines(planeOf(frame, size), [`time: ${seconds} s`, `frame: ${index + 1} of ${frames}`], INK, 1)
      encoder.addFrameYuv(frame)
    }
    encoder.finalize()
    return new Uint8Array(encoder.FS.readFile(encoder.outputFilename))
  } finally {
    encoder.delete()
  }
}

function planeOf(bytes: Uint8Array, { width, height }: ImageSize): Plane {
  return { bytes, stride: width, left: 0, width, height }
}

/** At the bottom, where text is seldom. */
function drawBar(frame: Uint8Array, { width, height }: ImageSize, index: number): void {
  const x = Math.floor(((index % BAR_FRAMES) / BAR_FRAMES) * Math.max(width - BAR_PIXELS, 0))
  for (let y = Math.floor(height * 0.9); y < height; y += 1) {
    frame.fill(BAR, y * width + x, y * width + Math.min(x + BAR_PIXELS, width))
  }
}
