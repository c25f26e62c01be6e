import type { Queryable } from '../../infra/postgres/database.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, SECOND_MS, sleep } from '../../lib/time.ts'
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
      const isStart = lastEventId !== null && isStartOfStream(lastEventId)
      if (lastEventId !== null && !isStart && !isUuid(lastEventId)) return refused(UNKNOWN_EVENT)
      const leave = enter(organizationId)
      if (leave === null) return refused(TOO_MANY)
      try {
        const from =
          lastEventId === null || isStart
            ? startOf(lastEventId?.slice(START_MARK.length) ?? (await readSnapshot(database)))
            : await behind(database, organizationId, lastEventId)
        if (from !== null) {
          const events = read({ ...dependencies, horizon }, organizationId, from, reader, leave)
          return ok({ events, start: lastEventId ?? `${START_MARK}${from.since}` })
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
const START = /^start-\d{1,18}:\d{1,18}:[\d,]{0,4000}$/

/** Returns whether PostgreSQL takes it for a snapshot too: numbers from the first to below the second, rising. */
function isStartOfStream(text: string): boolean {
  if (!START.test(text)) return false
  const [oldest = '', next = '', open = ''] = text.slice(START_MARK.length).split(':')
  const numbers = [oldest, ...(open === '' ? [] : open.split(','))].map(BigInt)
  const rises = numbers.every((each, index) => index < 2 || each > (numbers[index - 1] ?? 0n))
  const [first = 0n, second = first] = numbers
  return (
    first > 0n &&
    second >= first &&
    rises &&
    (numbers.at(-1) ?? 0n) <= BigInt(next) &&
    (open === '' || (numbers.at(-1) ?? 0n) < BigInt(next))
  )
}

interface From {
  readonly place: EventPlace
  /** A snapshot whose events are not sent; null: all events behind the place are. */
  readonly since: string | null
}

function startOf(since: string): From {
  const [oldest = '1'] = since.split(':')
  return { place: { writtenBy: String(BigInt(oldest) - 1n), id: null }, since }
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
  try {
    while (!gone.aborted && !isStopping()) {
      const events = await horizon()
        .then((below) => listEvents(database, organizationId, { after: place, since, horizon: below }, PAGE))
        .catch((error: unknown) => {
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
