import { promisify } from 'node:util'
import { crc32, deflate } from 'node:zlib'
import type { ImageSize } from '../dialect/spec.ts'
import { writeLines } from './lettering.ts'

const compress = promisify(deflate)

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const BITS_PER_SAMPLE = 8
const PALETTE_COLOURS = 3

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
  writeLines({ bytes: rows, stride: rowBytes, left: 1, width, height }, lines, INK)
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
