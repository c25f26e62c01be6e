import { JPG } from 'image-size/types/jpg'
import { PNG } from 'image-size/types/png'
import { WEBP } from 'image-size/types/webp'

/** The formats that image models put out. */
const FORMATS = [PNG, JPG, WEBP]

/** Characters of base64 in which a header must have said the size: a JPEG may have a preview and a profile before it. */
const HEAD_CHARACTERS = 4 * 65_536

/** The pixels of an image in base64, by its own header; null for what is no image of a known format. */
export function measurePixels(base64: Uint8Array): number | null {
  const head = Buffer.from(base64.buffer, base64.byteOffset, Math.min(base64.length, HEAD_CHARACTERS))
  const bytes = Buffer.from(head.toString('latin1'), 'base64')
  try {
    const format = FORMATS.find((each) => each.validate(bytes))
    if (format === undefined) return null
    const { width, height } = format.calculate(bytes)
    const pixels = width * height
    return Number.isSafeInteger(pixels) && pixels > 0 ? pixels : null
  } catch {
    // The header is cut short or false.
    return null
  }
}
