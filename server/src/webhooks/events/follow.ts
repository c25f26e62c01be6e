import type { Queryable } from '../../io/postgres/database.ts'
import { refusal } from '../../kernel/errors.ts'
import { isUuid } from '../../kernel/ids.ts'
import type { Log } from '../../kernel/log.ts'
import { ok, type Result, refused } from '../../kernel/result.ts'
import { type Clock, SECOND_MS, sleep } from '../../kernel/time.ts'
import { type EventPlace, type FollowedEvent, findEventPlace, findEventsEnd, listEventsAfter } from './store.ts'

/** The database is asked this often by each stream: that also hears what other processes published. */
const POLL_MS = SECOND_MS

/** Read at once; a client that takes up old events gets them page by page. */
const PAGE = 100

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
   * earlier stream. Ends when `gone` is aborted or the server stops; read `events` to its end or, once begun, return it,
   * or its place stays taken.
   */
  follow(organizationId: string, lastEventId: string | null, gone: AbortSignal): Promise<Result<Followed>>
}

export interface Followed {
  readonly events: AsyncGenerator<FollowedEvent, void>
  /** What a client names as the last event that it saw when it has to come back before it saw any. */
  readonly start: string
}

export function createFollower(dependencies: FollowDependencies): Follower {
  const { database } = dependencies
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
    async follow(organizationId, lastEventId, gone) {
      const start = lastEventId === null ? null : startFromWire(lastEventId)
      if (lastEventId !== null && start === null && !isUuid(lastEventId)) return refused(UNKNOWN_EVENT)
      const leave = enter(organizationId)
      if (leave === null) return refused(TOO_MANY)
      try {
        const named = lastEventId === null ? findEventsEnd(database) : null
        const place = start ?? (await (named ?? findEventPlace(database, organizationId, lastEventId ?? '')))
        if (place !== null) {
          const events = read(dependencies, organizationId, place, gone, leave)
          return ok({ events, start: place.id ?? `${START}${place.writtenBy}` })
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

/** Marks the start of a stream, where a client names the last event that it saw. */
const START = 'start-'

/** The start of a stream as its client hands it back; null for anything else. */
function startFromWire(text: string): EventPlace | null {
  const [, writtenBy] = /^start-(\d{1,18})$/.exec(text) ?? []
  return writtenBy === undefined ? null : { writtenBy, id: null }
}

async function* read(
  { database, clock, log, isStopping }: FollowDependencies,
  organizationId: string,
  from: EventPlace,
  gone: AbortSignal,
  leave: () => void,
): AsyncGenerator<FollowedEvent, void> {
  let place = from
  try {
    while (!gone.aborted && !isStopping()) {
      const events = await listEventsAfter(database, organizationId, place, PAGE).catch((error: unknown) => {
        log.warn({ err: error }, 'events could not be read for a stream; tried again in a second')
        return []
      })
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
