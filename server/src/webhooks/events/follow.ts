import type { Queryable } from '../../infra/postgres/database.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, SECOND_MS, sleep } from '../../lib/time.ts'
import { parseSnapshot, type Snapshot } from './snapshot.ts'
import { type EventPlace, type FollowedEvent, findEventPlace, listEvents, readHorizon, readSnapshot } from './store.ts'

/** The database is asked this often by each stream: that also hears what other processes published. */
const POLL_MS = SECOND_MS

/** Read at once; a client that takes up old events gets them page by page. */
const PAGE = 100

/** One look at the transactions that are open serves all streams for so long: an older one shows less, never too much. */
const HORIZON_MS = 100

/** Streams open at once in this process, of one organization and of all. Each asks the database once a second. */
const STREAMS_EACH_MOST = 10
const STREAMS_MOST = 500

export interface FollowDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly log: Log
  /** Streams end when the server is to stop: their clients take them up elsewhere. */
  readonly isStopping: () => boolean
}

export interface Follower {
  /**
   * An organization's events from now on, or those after one that it names, within 30 days, or after the start of an
   * earlier stream. Ends when its reader is gone or may not read any more, or the server stops; read `events` to its end
   * or, once begun, return it, or its place stays taken.
   */
  follow(organizationId: string, lastEventId: string | null, reader: StreamReader): Promise<Result<Followed>>
}

/** The reader of a stream, who may leave or lose the right to read. */
export interface StreamReader {
  readonly gone: CallSignal
  /** Asked after each look for events, before they are sent: a key may be revoked while its stream is open. */
  readonly isStillAllowed: () => Promise<boolean>
}

export interface Followed {
  readonly events: AsyncGenerator<FollowedEvent, void>
  /** The value of `Last-Event-ID` for a client that reconnects before it has received an event. */
  readonly start: string
}

export function createFollower(dependencies: FollowDependencies): Follower {
  const { database } = dependencies
  const horizon = sharedHorizon(dependencies)
  const open = new Map<string, number>()
  let openCount = 0

  const enter = (organizationId: string): (() => void) | null => {
    const own = open.get(organizationId) ?? 0
    if (own >= STREAMS_EACH_MOST || openCount >= STREAMS_MOST) return null
    open.set(organizationId, own + 1)
    openCount += 1
    return () => {
      openCount -= 1
      const left = (open.get(organizationId) ?? 1) - 1
      if (left === 0) open.delete(organizationId)
      else open.set(organizationId, left)
    }
  }
  return {
    async follow(organizationId, lastEventId, reader) {
      const since = lastEventId === null ? null : startFromWire(lastEventId)
      if (lastEventId !== null && since === null && !isUuid(lastEventId)) return refused(UNKNOWN_EVENT)
      const leave = enter(organizationId)
      if (leave === null) return refused(TOO_MANY)
      try {
        const from =
          lastEventId === null || since !== null
            ? await startOf(database, since)
            : await behind(database, organizationId, lastEventId)
        if (from !== null) {
          const events = read({ ...dependencies, horizon }, organizationId, from, reader, leave)
          return ok({ events, start: lastEventId ?? `${START_MARK}${from.since?.text}` })
        }
      } catch (error) {
        leave()
        throw error
      }
      leave()
      return refused(UNKNOWN_EVENT)
    },
  }
}

/** The start of a stream, where a client names the last event that it saw: a snapshot of the database. */
const START_MARK = 'start-'
const START_LENGTH_MOST = 4_096

function startFromWire(text: string): Snapshot | null {
  if (!text.startsWith(START_MARK) || text.length > START_LENGTH_MOST) return null
  return parseSnapshot(text.slice(START_MARK.length))
}

interface From {
  readonly place: EventPlace
  /** A snapshot whose events are not sent; null: all events behind the place are. */
  readonly since: Snapshot | null
}

/** Returns the place of a start: of now, or of a snapshot that a client names; null: this database has not come to that one yet. */
async function startOf(database: Queryable, named: Snapshot | null): Promise<From | null> {
  const now = parseSnapshot(await readSnapshot(database))
  if (now === null) throw new Error('PostgreSQL wrote a snapshot in a form that is not known')
  const since = named ?? now
  // A snapshot of the future is made up, or from before the database was restored: all that happens until then would be left out.
  if (BigInt(since.next) > BigInt(now.next)) return null
  return { place: { writtenBy: String(BigInt(since.oldest) - 1n), id: null }, since }
}

async function behind(database: Queryable, organizationId: string, eventId: string): Promise<From | null> {
  const place = await findEventPlace(database, organizationId, eventId)
  return place === null ? null : { place, since: null }
}

/** The horizon of now or of a moment ago. */
function sharedHorizon({ database, clock }: FollowDependencies): () => Promise<string> {
  let shared: Promise<string> | null = null
  let untilMs = 0
  return () => {
    if (shared !== null && clock.monotonicMs() < untilMs) return shared
    untilMs = clock.monotonicMs() + HORIZON_MS
    const reading = readHorizon(database)
    reading.catch(() => {
      if (shared === reading) shared = null
    })
    shared = reading
    return reading
  }
}

async function* read(
  { database, clock, log, isStopping, horizon }: FollowDependencies & { readonly horizon: () => Promise<string> },
  organizationId: string,
  { place: first, since }: From,
  { gone, isStillAllowed }: StreamReader,
  leave: () => void,
): AsyncGenerator<FollowedEvent, void> {
  let place = first
  const next = since?.next ?? null
  /** Transactions that were open when the stream began and may still have events to send. */
  let open = since?.open ?? []
  const look = async () => {
    const below = await horizon()
    const events = await listEvents(database, organizationId, { after: place, open, next, horizon: below }, PAGE)
    // All of those below the horizon are over, and were looked at to the end.
    if (events.length < PAGE) open = open.filter((number) => BigInt(number) >= BigInt(below))
    return events
  }
  try {
    while (!gone.aborted && !isStopping()) {
      const events = await look().catch((error: unknown) => {
        log.warn({ err: error }, 'events could not be read for a stream; tried again in a second')
        return []
      })
      if (!(await isStillAllowed())) return
      for (const event of events) {
        place = event
        yield event
      }
      if (events.length < PAGE) await sleep(clock, POLL_MS)
    }
  } finally {
    leave()
  }
}

const UNKNOWN_EVENT = refusal(
  'validation_failed',
  "The header Last-Event-ID must be the id of one of this organization's events of the last 30 days, or the header Svc-Stream-Start of an earlier stream; leave it out to begin now.",
)

const TOO_MANY = refusal(
  'rate_limited',
  `At most ${STREAMS_EACH_MOST} streams of events may be open at once for an organization; close one, or try again later.`,
  { retryAfterSeconds: 5 },
)
