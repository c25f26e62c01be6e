import { InvalidOutput, type ReadRange } from './clip.ts'

/** An hour at 60 frames a second has 216,000 frames, and 170,000 of sound; the parser keeps some 100 bytes for each. */
const FRAMES_MOST = 500_000
/** All tables of so many frames, at the 32 bytes that each may take. They are in memory while they are looked at. */
const TABLES_MOST_BYTES = 8 << 20
/** Boxes at the top of a file: a fragmented one of an hour has two for each of its fragments. */
const BOXES_MOST = 20_000
const DEPTH_MOST = 8

/** Length and type; a length in 64 bits may follow. */
const HEAD_BYTES = 8
const LONG_HEAD_BYTES = 16
/** Version and flags of a full box, and the count that its entries begin with. */
const COUNT_END = 8

const CONTAINERS: ReadonlySet<string> = new Set([
  'moov',
  'trak',
  'edts',
  'mdia',
  'minf',
  'stbl',
  'mvex',
  'moof',
  'traf',
])
/** Of encrypted files, which play for nobody. */
const ENCRYPTED: ReadonlySet<string> = new Set(['pssh', 'saiz', 'saio', 'senc', 'sinf'])

/**
 * Looks at the frame of an mp4 (ISO/IEC 14496-12) before it is parsed. It finds a file that is cut off: a box goes
 * on beyond the file's end, or is missing. It also finds a table of a few bytes that stands for billions of frames,
 * which would fill the memory of a parser that believes it. Throws {@link InvalidOutput}.
 */
export async function checkBoxes(read: ReadRange, bytes: number): Promise<void> {
  const counted = { frames: 0 }
  const types = new Set<string>()
  let at = 0
  for (let boxes = 0; at < bytes; boxes += 1) {
    if (boxes >= BOXES_MOST) throw new InvalidOutput('it has too many boxes')
    const head = Buffer.from(await read(at, Math.min(at + LONG_HEAD_BYTES, bytes)))
    const { type, size, headBytes } = boxOf(head, 0, bytes - at)
    if (at === 0 && type !== 'ftyp') throw new InvalidOutput('it does not begin as an mp4 does')
    types.add(type)
    if (type === 'moov' || type === 'moof') {
      if (size > TABLES_MOST_BYTES) throw new InvalidOutput('its tables are too large')
      checkTables(Buffer.from(await read(at + headBytes, at + size)), 1, counted)
    }
    at += size
  }
  if (!types.has('moov')) throw new InvalidOutput('it has no tables: it is cut off, or no mp4')
  if (!types.has('mdat')) throw new InvalidOutput('it has no pictures')
  await checkIndex(read, bytes)
}

/** Of an entry of the index of fragments: where the number of entries is. */
const INDEX_COUNT_AT = 12

/**
 * The fragment index (`mfra`). The parser finds it by an offset in the last 4 bytes, which may point anywhere. It sorts the entries,
 * and takes equal ones out one by one, which of very many takes minutes.
 */
async function checkIndex(read: ReadRange, bytes: number): Promise<void> {
  const at = bytes - Buffer.from(await read(bytes - 4, bytes)).readUInt32BE()
  if (at < 0 || at > bytes - HEAD_BYTES) return
  const head = Buffer.from(await read(at, Math.min(at + LONG_HEAD_BYTES, bytes)))
  if (head.toString('latin1', 4, HEAD_BYTES) !== 'mfra') return
  const index = boxOf(head, 0, bytes - at)
  if (index.size > TABLES_MOST_BYTES) throw new InvalidOutput('its index is too large')
  const content = Buffer.from(await read(at + index.headBytes, at + index.size))
  let entries = 0
  for (let place = 0; place < content.byteLength; ) {
    const { type, size, headBytes } = boxOf(content, place, content.byteLength - place)
    const inner = content.subarray(place + headBytes, place + size)
    if (type === 'tfra' && inner.byteLength >= INDEX_COUNT_AT + 4) entries += inner.readUInt32BE(INDEX_COUNT_AT)
    else if (type !== 'mfro') throw new InvalidOutput('its index is none')
    place += size
  }
  if (entries > BOXES_MOST) throw new InvalidOutput('its index has more fragments than a clip can have')
}

interface Box {
  readonly type: string
  /** With its head; 8 at least. */
  readonly size: number
  readonly headBytes: number
}

/** The box that begins at a place; `restBytes` is what there is from there on. */
function boxOf(bytes: Buffer, at: number, restBytes: number): Box {
  if (restBytes < HEAD_BYTES) throw new InvalidOutput('it ends within a box')
  const type = bytes.toString('latin1', at + 4, at + HEAD_BYTES)
  const short = bytes.readUInt32BE(at)
  const isLong = short === 1
  if (isLong && restBytes < LONG_HEAD_BYTES) throw new InvalidOutput('it ends within a box')
  const headBytes = isLong ? LONG_HEAD_BYTES : HEAD_BYTES
  // A length of 0 stands for all that is left.
  const size = isLong ? Number(bytes.readBigUInt64BE(at + HEAD_BYTES)) : short === 0 ? restBytes : short
  if (size < headBytes || size > restBytes) throw new InvalidOutput('it is cut off')
  return { type, size, headBytes }
}

function checkTables(content: Buffer, depth: number, counted: { frames: number }): void {
  if (depth > DEPTH_MOST) throw new InvalidOutput('its boxes are nested too deep')
  for (let at = 0; at < content.byteLength; ) {
    const { type, size, headBytes } = boxOf(content, at, content.byteLength - at)
    const inner = content.subarray(at + headBytes, at + size)
    if (ENCRYPTED.has(type)) throw new InvalidOutput('it is encrypted')
    if (CONTAINERS.has(type)) checkTables(inner, depth + 1, counted)
    else counted.frames += framesOf(type, inner)
    if (counted.frames > FRAMES_MOST) throw new InvalidOutput('it has more frames than a clip can have')
    at += size
  }
}

/** Of each table that stands for frames: the bytes of an entry, and where in it the number of frames is. */
const TABLES: Readonly<Record<string, { readonly entryBytes: number; readonly countAt: number }>> = {
  stts: { entryBytes: 8, countAt: 0 },
  ctts: { entryBytes: 8, countAt: 0 },
  stsc: { entryBytes: 12, countAt: 4 },
}

/** Returns how many frames a table adds; 0 for what is no table, and for tables that tell more of the same frames. */
function framesOf(type: string, inner: Buffer): number {
  if (type === 'trun') return inner.byteLength < COUNT_END ? 0 : inner.readUInt32BE(COUNT_END - 4)
  const table = Object.hasOwn(TABLES, type) ? TABLES[type] : undefined
  if (table === undefined) return 0
  if (inner.byteLength < COUNT_END) throw new InvalidOutput('a table has no length')
  const count = inner.readUInt32BE(COUNT_END - 4)
  if (COUNT_END + count * table.entryBytes > inner.byteLength) throw new InvalidOutput('a table is longer than its box')
  let frames = 0
  for (let entry = 0; entry < count; entry += 1) {
    frames += inner.readUInt32BE(COUNT_END + entry * table.entryBytes + table.countAt)
  }
  if (frames > FRAMES_MOST) throw new InvalidOutput('it has more frames than a clip can have')
  return type === 'stts' ? frames : 0
}
