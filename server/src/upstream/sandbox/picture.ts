import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { crc32, deflate } from 'node:zlib'
import type { ImageSize } from '../spec.ts'

/** A font of 5 by 7 points: for each character `width` bytes, one a column, the lowest bit at the top. */
interface Font {
  readonly width: number
  readonly height: number
  readonly fontData: readonly number[]
  readonly lookup: readonly string[]
}

// It brings no types.
const require = createRequire(import.meta.url)
const font: Font = require('oled-font-5x7')

const compress = promisify(deflate)

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const BITS_PER_SAMPLE = 8
const PALETTE_COLOURS = 3

/** A character and the gap after it; a line and the gap below it. In points of the font. */
const ADVANCE = font.width + 1
const LINE_HEIGHT = font.height + 3
/** Characters that a line should hold where the picture is large enough for it. */
const COLUMNS = 28
const MARGIN = 8
/** The height of the stripes behind the text, in pixels. */
const STRIPE = 16

/** Indexes of the palette. */
const PAPER = 0
const STRIPES = 1
const INK = 2

/** A PNG that shows these lines, each broken where the picture ends. Its colours follow from the seed. */
export async function drawText(lines: readonly string[], size: ImageSize, seed: number): Promise<Buffer> {
  const { width, height } = size
  // A row begins with the number of its filter: none.
  const rowBytes = width + 1
  const rows = Buffer.alloc(rowBytes * height, PAPER)
  for (let y = 0; y < height; y += 1) {
    const start = y * rowBytes
    if (Math.floor(y / STRIPE) % 2 === seed % 2) rows.fill(STRIPES, start + 1, start + rowBytes)
    rows[start] = 0
  }
  write(rows, size, lines)
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.writeUInt8(BITS_PER_SAMPLE, 8)
  // Colours are those of a palette; compression, filters and order of rows are the only ones, and the ordinary one.
  header.writeUInt8(3, 9)
  const pixels = await compress(rows)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', paletteOf(seed)),
    chunk('IDAT', pixels),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const framed = Buffer.alloc(named.length + 8)
  framed.writeUInt32BE(data.length, 0)
  named.copy(framed, 4)
  framed.writeUInt32BE(crc32(named), named.length + 4)
  return framed
}

/** Dark ink on a light paper of the seed's tint. */
function paletteOf(seed: number): Buffer {
  const palette = Buffer.alloc(PALETTE_COLOURS * 3)
  for (let part = 0; part < 3; part += 1) {
    const tint = (seed >>> (part * 8)) & 0x3f
    palette[PAPER * 3 + part] = 0xff - tint
    palette[STRIPES * 3 + part] = 0xf3 - tint
    palette[INK * 3 + part] = tint
  }
  return palette
}

/** Writes the lines, as large as the picture's width allows, until its height is used up. */
function write(rows: Buffer, { width, height }: ImageSize, lines: readonly string[]): void {
  const scale = Math.max(1, Math.floor((width - 2 * MARGIN) / (COLUMNS * ADVANCE)))
  const columns = Math.max(1, Math.floor((width - 2 * MARGIN) / (ADVANCE * scale)))
  let top = MARGIN
  for (const line of lines.flatMap((each) => broken(each, columns))) {
    if (top + font.height * scale > height) return
    for (let place = 0; place < line.length; place += 1) {
      stamp(rows, { width, height }, line.charAt(place), MARGIN + place * ADVANCE * scale, top, scale)
    }
    top += LINE_HEIGHT * scale
  }
}

function broken(line: string, columns: number): string[] {
  const parts: string[] = []
  for (let at = 0; at === 0 || at < line.length; at += columns) parts.push(line.slice(at, at + columns))
  return parts
}

/** One character; what the font does not have is a question mark. */
function stamp(
  rows: Buffer,
  { width, height }: ImageSize,
  character: string,
  left: number,
  top: number,
  scale: number,
): void {
  const found = font.lookup.indexOf(character)
  const first = (found === -1 ? font.lookup.indexOf('?') : found) * font.width
  for (let column = 0; column < font.width; column += 1) {
    const bits = font.fontData[first + column] ?? 0
    for (let row = 0; row < font.height; row += 1) {
      if (((bits >> row) & 1) === 0) continue
      const x = left + column * scale
      for (let y = top + row * scale; y < Math.min(top + (row + 1) * scale, height); y += 1) {
        const start = y * (width + 1) + 1
        rows.fill(INK, start + Math.min(x, width), start + Math.min(x + scale, width))
      }
    }
  }
}
