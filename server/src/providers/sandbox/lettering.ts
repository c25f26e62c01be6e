import { createRequire } from 'node:module'

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

/** A character and the gap after it; a line and the gap below it. In points of the font. */
const ADVANCE = font.width + 1
const LINE_HEIGHT = font.height + 3
/** Characters that a line should hold where the plane is large enough for it. */
const COLUMNS = 28
const MARGIN = 8

/** Pixels of one byte each, row after row. */
export interface Plane {
  readonly bytes: Uint8Array
  /** Bytes from a row to the next. */
  readonly stride: number
  /** Bytes before the first pixel of a row. */
  readonly left: number
  readonly width: number
  readonly height: number
}

/**
 * Writes the lines in `ink`, as large as the plane's width allows, each broken where it ends, until its height is used up.
 * The first is as many lines below the top as `skipped` says.
 */
export function writeLines(plane: Plane, lines: readonly string[], ink: number, skipped = 0): void {
  const scale = Math.max(1, Math.floor((plane.width - 2 * MARGIN) / (COLUMNS * ADVANCE)))
  const columns = Math.max(1, Math.floor((plane.width - 2 * MARGIN) / (ADVANCE * scale)))
  let used = skipped
  for (const line of lines.flatMap((each) => broken(each, columns))) {
    const top = MARGIN + used * LINE_HEIGHT * scale
    if (top + font.height * scale > plane.height) return
    for (let place = 0; place < line.length; place += 1) {
      stamp(plane, line.charAt(place), MARGIN + place * ADVANCE * scale, top, scale, ink)
    }
    used += 1
  }
}

function broken(line: string, columns: number): string[] {
  const parts: string[] = []
  for (let at = 0; at === 0 || at < line.length; at += columns) parts.push(line.slice(at, at + columns))
  return parts
}

/** Draws one character, or `?` if the font lacks it. */
function stamp(
  { bytes, stride, left, width, height }: Plane,
  character: string,
  x0: number,
  y0: number,
  scale: number,
  ink: number,
): void {
  const found = font.lookup.indexOf(character)
  const first = (found === -1 ? font.lookup.indexOf('?') : found) * font.width
  for (let column = 0; column < font.width; column += 1) {
    const bits = font.fontData[first + column] ?? 0
    const x = x0 + column * scale
    for (let row = 0; row < font.height; row += 1) {
      if (((bits >> row) & 1) === 0) continue
      for (let y = y0 + row * scale; y < Math.min(y0 + (row + 1) * scale, height); y += 1) {
        const start = y * stride + left
        bytes.fill(ink, start + Math.min(x, width), start + Math.min(x + scale, width))
      }
    }
  }
}
