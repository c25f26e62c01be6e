import { type Clock, SECOND_MS, within } from '../../lib/time.ts'

/**
 * Look-ups of keys that memory does not have, and of cookies that are no session which the process has seen. They wait in a line
 * for each address, go to the database in batches, and take turns by line, so that a line full of unknown keys delays no other line
 * by more than one key a turn (K5).
 */

/** A request is not kept longer than this by a database that doesn't answer. */
export const LOOK_UP_TIMEOUT_MS = 5 * SECOND_MS
/** Keys that one query asks for. A batch of so many takes some milliseconds. */
const BATCH_KEYS = 500
/** Queries under way: one is answered while the next one is on its way. */
const BATCHES_AT_ONCE = 2
/** Keys that may wait in one line, and in all lines together: some 10 MB at most. */
const WAITING_IN_A_LINE = 1_000
const WAITING_IN_ALL = 20_000
/** A batch that is not answered by then is given up, so that it does not hold up the ones behind it for ever. */
const BATCH_TIMEOUT_MS = 5_000

/** The row of a key; or there is none; or the database can't be asked, or too many wait. */
export type FoundKey<Row> = Row | 'unknown' | 'unavailable'

interface LookUpsOptions<Row> {
  readonly clock: Clock
  /** Returns the rows of those of the keys that exist, by hash. */
  readonly find: (keyHashes: readonly string[]) => Promise<ReadonlyMap<string, Row>>
  /** Is told why a query failed. */
  readonly report: (error: unknown) => void
}

/** A key that waits, and everybody in its line who asks for it. */
interface Waiting<Row> {
  readonly found: Promise<FoundKey<Row>>
  readonly answer: (found: FoundKey<Row>) => void
}

interface Line<Row> {
  readonly name: string
  /** By hash, the longest waiting first. */
  readonly keys: Map<string, Waiting<Row>>
}

export class LookUps<Row> {
  private readonly options: LookUpsOptions<Row>
  /** Those in which somebody waits, in the order of their turns. */
  private readonly lines = new Map<string, Line<Row>>()
  /** The same lines by how many wait in them, so that the longest is found at once. */
  private readonly bySize: Set<Line<Row>>[] = []
  private waiting = 0
  private batches = 0

  constructor(options: LookUpsOptions<Row>) {
    this.options = options
  }

  /** Returns how many keys wait for their turn. */
  get size(): number {
    return this.waiting
  }

  /**
   * Returns the key's row by a query that begins after this call. Callers in one line that ask for one key before its turn
   * share it. Never rejects. Unavailable where the line is full; where all lines together are full, the longest gives a place up.
   */
  ask(name: string, keyHash: string): Promise<FoundKey<Row>> {
    const line = this.lines.get(name) ?? { name, keys: new Map<string, Waiting<Row>>() }
    const shared = line.keys.get(keyHash)
    if (shared !== undefined) return shared.found
    if (line.keys.size >= WAITING_IN_A_LINE || !this.makePlaceFor(line)) return Promise.resolve('unavailable')
    const { promise: found, resolve: answer } = Promise.withResolvers<FoundKey<Row>>()
    this.change(line, () => line.keys.set(keyHash, { found, answer }))
    this.send()
    return found
  }

  private makePlaceFor(line: Line<Row>): boolean {
    if (this.waiting < WAITING_IN_ALL) return true
    const [longest] = this.bySize.at(-1) ?? []
    if (longest === undefined || longest.keys.size <= line.keys.size) return false
    this.takeFirst(longest)?.[1].answer('unavailable')
    return true
  }

  /** Changes who waits in a line, and keeps the order of lines and sizes. */
  private change(line: Line<Row>, work: () => void): void {
    const before = line.keys.size
    work()
    const after = line.keys.size
    this.waiting += after - before
    this.bySize[before]?.delete(line)
    if (after > 0) {
      this.lines.set(line.name, line)
      while (this.bySize.length <= after) this.bySize.push(new Set())
      this.bySize[after]?.add(line)
    } else this.lines.delete(line.name)
    while (this.bySize.at(-1)?.size === 0) this.bySize.pop()
  }

  private takeFirst(line: Line<Row>): readonly [string, Waiting<Row>] | undefined {
    for (const first of line.keys) {
      this.change(line, () => line.keys.delete(first[0]))
      return first
    }
    return undefined
  }

  private send(): void {
    while (this.batches < BATCHES_AT_ONCE && this.waiting > 0) void this.askBatch(this.nextBatch())
  }

  /** One key of each line in turn. A key that waits in several lines is asked for once. */
  private nextBatch(): Map<string, Waiting<Row>[]> {
    const batch = new Map<string, Waiting<Row>[]>()
    for (let taken = 0; taken < BATCH_KEYS && this.waiting > 0; taken += 1) {
      for (const line of this.lines.values()) {
        // At the end of the order, if somebody still waits in it.
        this.lines.delete(line.name)
        const [keyHash, waiting] = this.takeFirst(line) ?? []
        if (keyHash !== undefined && waiting !== undefined) {
          const same = batch.get(keyHash)
          if (same === undefined) batch.set(keyHash, [waiting])
          else same.push(waiting)
        }
        break
      }
    }
    return batch
  }

  private async askBatch(batch: ReadonlyMap<string, readonly Waiting<Row>[]>): Promise<void> {
    const { clock, find, report } = this.options
    this.batches += 1
    let rows: ReadonlyMap<string, Row> | null = null
    try {
      rows = await within(clock, BATCH_TIMEOUT_MS, find([...batch.keys()]), null)
    } catch (error) {
      report(error)
    }
    this.batches -= 1
    for (const [keyHash, waiting] of batch) {
      const found = rows === null ? 'unavailable' : (rows.get(keyHash) ?? 'unknown')
      for (const { answer } of waiting) answer(found)
    }
    this.send()
  }
}
