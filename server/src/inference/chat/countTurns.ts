/**
 * Counts the tokens of long and short texts by the same thread: batch by batch, organizations in turn, so that a long text of
 * one keeps the count of another waiting for one batch only.
 */

import { endOfPiece, PIECE_CHARACTERS } from './textPieces.ts'

/**
 * Characters of a batch; it may have up to two slices more. Of prose they take the tokenizer 2 ms, of the slowest texts some
 * 90 ms, by which the counts of others are late. Much smaller ones would have the thread wait for a busy main thread.
 */
const BATCH_CHARACTERS = 32_768

/** Bytes of a token, for when there is no tokenizer: English prose has about four. */
const BYTES_PER_TOKEN = 4

/** A count under way: what of its texts has not been given away begins at `start` of the text `index`. */
interface Counting {
  readonly texts: readonly string[]
  readonly tokensMost: number
  readonly resolve: (tokens: number) => void
  index: number
  start: number
  /** Slices that are counted now. */
  slices: number
  tokens: number
}

interface Slice {
  readonly counting: Counting
  readonly pieces: readonly string[]
}

/** Counts slices, each of which is some pieces of text; answers the tokens of each. */
export type CountSlices = (slices: readonly (readonly string[])[]) => Promise<readonly number[]>

/** Counts of all organizations. One batch at a time is given to `countSlices`; where that rejects, lengths are used instead. */
export function createCountTurns(countSlices: CountSlices) {
  /** By organization; the first has the next turn. */
  const lines = new Map<string, Counting[]>()
  const unanswered = new Set<Counting>()
  let isBusy = false

  const answer = (counting: Counting, tokens: number): void => {
    if (!unanswered.delete(counting)) return
    counting.index = counting.texts.length
    counting.resolve(tokens)
  }
  const add = (counting: Counting, tokens: number): void => {
    counting.tokens += tokens
    counting.slices -= 1
    const isWhole = isGiven(counting) && counting.slices === 0
    if (isWhole || counting.tokens >= counting.tokensMost) answer(counting, counting.tokens)
  }
  const next = (): void => {
    if (isBusy) return
    const batch = takeBatch(lines)
    if (batch.length === 0) return
    isBusy = true
    const counted = (tokens: readonly number[]) => {
      for (const [at, { counting }] of batch.entries()) add(counting, tokens[at] ?? 0)
    }
    const failed = () => {
      for (const { counting } of batch) answer(counting, fromLength(counting.texts))
    }
    void countSlices(batch.map(({ pieces }) => pieces))
      .then(counted, failed)
      .finally(() => {
        isBusy = false
        next()
      })
  }
  return {
    /** Returns how many counts have been asked for and not been answered. */
    get waiting() {
      return unanswered.size
    },
    /** Counts texts for an organization, in its turn: to the end, or until there are `tokensMost` or more. Never rejects. */
    count(texts: readonly string[], organizationId: string, tokensMost = Number.POSITIVE_INFINITY): Promise<number> {
      const written = texts.filter((text) => text !== '')
      if (written.length === 0) return Promise.resolve(0)
      return new Promise((resolve) => {
        const counting = { texts: written, tokensMost, resolve, index: 0, start: 0, slices: 0, tokens: 0 }
        unanswered.add(counting)
        const line = lines.get(organizationId)
        if (line === undefined) lines.set(organizationId, [counting])
        else line.push(counting)
        next()
      })
    },
    /** Answers every count from the length of its texts. */
    giveUp() {
      lines.clear()
      for (const counting of unanswered) answer(counting, fromLength(counting.texts))
    },
  }
}

/** Takes a slice of each organization in turn, until they are a batch. */
function takeBatch(lines: Map<string, Counting[]>): Slice[] {
  const batch: Slice[] = []
  for (let characters = 0; characters < BATCH_CHARACTERS; ) {
    const [first] = lines
    if (first === undefined) break
    const [organizationId, line] = first
    const [counting] = line
    if (counting !== undefined && !isGiven(counting)) {
      const pieces = takePieces(counting)
      for (const piece of pieces) characters += piece.length
      counting.slices += 1
      batch.push({ counting, pieces })
    }
    if (counting === undefined || isGiven(counting)) line.shift()
    // An organization with more to count stands behind all others now.
    lines.delete(organizationId)
    if (line.length > 0) lines.set(organizationId, line)
  }
  return batch
}

/**
 * Takes the next pieces of the texts: fewer than two pieces' length together. They are cut where `countText` cuts a whole text,
 * so that their tokens add up to the same number.
 */
function takePieces(counting: Counting): string[] {
  const pieces: string[] = []
  for (let characters = 0; characters < PIECE_CHARACTERS && !isGiven(counting); ) {
    const text = counting.texts[counting.index] ?? ''
    const end = endOfPiece(text, counting.start, PIECE_CHARACTERS)
    pieces.push(text.slice(counting.start, end))
    characters += end - counting.start
    const isEnd = end === text.length
    counting.start = isEnd ? 0 : end
    if (isEnd) counting.index += 1
  }
  return pieces
}

/** Returns whether nothing of it is left to be given to the tokenizer. */
function isGiven({ index, texts }: Counting): boolean {
  return index >= texts.length
}

function fromLength(texts: readonly string[]): number {
  let tokens = 0
  for (const text of texts) tokens += Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
  return tokens
}
