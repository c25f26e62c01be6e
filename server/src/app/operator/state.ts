/** The running installation as operators see it: targets, queues, dead charges and the books. */

import { z } from 'zod'
import type { DeadCharge } from '../../billing/charges/deadCharge.ts'
import { listDeadCharges } from '../../billing/charges/deadCharges.ts'
import { verifyAll } from '../../billing/ledger/verifyAll.ts'
import { planCheck } from '../../billing/plans/verify.ts'
import { statementCheck } from '../../billing/statements/closing/verify.ts'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import { showIdList } from '../../http/list.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { SessionPrincipal } from '../../http/principal.ts'
import { textStream } from '../../http/textStream.ts'
import { describe } from '../../lib/disagreement.ts'
import { refusal } from '../../lib/errors.ts'
import { cursorPage, LIST_SHAPE } from '../../lib/listPage.ts'
import { HOUR_MS, sleep, toTimestamp } from '../../lib/time.ts'
import type { OperatorDependencies } from './dependencies.ts'

export const targetList = z
  .object({
    data: z.array(
      z.object({
        provider: z.string(),
        model: z.string().meta({ description: 'Its name at the provider.' }),
        state: z.enum(['closed', 'open', 'trial']).meta({
          description:
            '`closed`: it is well. `open`: it failed, and is left alone for a while. `trial`: one call tries it.',
        }),
        open_calls: z.int(),
      }),
    ),
  })
  .meta({ id: 'TargetList', description: 'As the process that answers knows them.' })

const seconds = z.number().nullable().meta({ description: 'Seconds that the oldest has waited. Null: none waits.' })

export const queueFigures = z
  .object({
    videos: z.array(z.object({ model: z.string(), queued: z.int(), oldest_seconds: seconds, under_way: z.int() })),
    webhooks: z.array(z.object({ lane: z.enum(['new', 'fast', 'slow']), waiting: z.int(), oldest_seconds: seconds })),
    slow_endpoints: z.int(),
    jobs: z.array(z.object({ kind: z.string(), due: z.int(), oldest_seconds: seconds })),
  })
  .meta({ id: 'Queues' })

export const deadChargesQuery = z.object(LIST_SHAPE)
const deadChargeEntry = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    failed_at: z.string().meta({ format: 'date-time' }),
    reason: z.string(),
    charge: z.record(z.string(), z.unknown()).meta({ description: 'As it was to be posted.' }),
  })
  .meta({ id: 'DeadCharge' })
export const deadChargePage = cursorPage(deadChargeEntry, 'The newest by admission first.', 'DeadChargePage')

export const ledgerCheckRow = z
  .object({
    type: z.string().meta({
      description:
        '`check`: the first row. `disagreement`. `end`: the last row; without it the check did not go to its end.',
    }),
    started_at: z.string().optional().meta({ format: 'date-time' }),
    kind: z.string().optional().meta({ description: 'Of a disagreement, such as `balance`.' }),
    organization_id: z.string().optional().meta({ format: 'uuid' }),
    message: z.string().optional().meta({ description: 'The disagreement in words.' }),
    agrees: z.boolean().optional(),
    disagreements: z.int().optional().meta({ description: 'How many were found. The first 1,000 are rows.' }),
  })
  .meta({ id: 'LedgerCheckRow' })

/** GET /operator/targets. */
export function showTargets({ looks }: OperatorDependencies): Handle<SessionPrincipal> {
  return () => {
    const body: z.infer<typeof targetList> = {
      data: [...looks()].map(({ provider, model, look }) => ({
        provider,
        model,
        state: look.breaker.state,
        open_calls: look.open,
      })),
    }
    return jsonAnswer(body)
  }
}

const NO_QUEUES = refusal('upstream_unavailable', 'The queues can’t be read at this moment; try again shortly.', {
  retryAfterSeconds: 1,
})

/** GET /operator/queues. */
export function showQueues({ queues }: OperatorDependencies): Handle<SessionPrincipal> {
  return async () => {
    const read = await queues()
    if (read === null) return NO_QUEUES
    const body: z.infer<typeof queueFigures> = {
      videos: read.videos.map(({ model, queued, oldestSeconds, underWay }) => ({
        model,
        queued,
        oldest_seconds: oldestSeconds,
        under_way: underWay,
      })),
      webhooks: read.webhooks.map(({ lane, waiting, oldestSeconds }) => ({
        lane,
        waiting,
        oldest_seconds: oldestSeconds,
      })),
      slow_endpoints: read.slowEndpoints,
      jobs: read.jobs.map(({ kind, due, oldestSeconds }) => ({ kind, due, oldest_seconds: oldestSeconds })),
    }
    return jsonAnswer(body)
  }
}

/** GET /operator/dead-charges. */
export function showDeadCharges({ database }: OperatorDependencies): Handle<SessionPrincipal> {
  return showIdList({
    name: 'dead-charges',
    query: deadChargesQuery,
    find: (_call, beforeId, limit) => listDeadCharges(database, beforeId, limit),
    toWire: deadToWire,
  })
}

function deadToWire({ id, failedAtMs, reason, charge }: DeadCharge): z.infer<typeof deadChargeEntry> {
  return { id, failed_at: toTimestamp(failedAtMs), reason, charge }
}

const CHECK_LONGEST_MS = HOUR_MS
/** Rows of disagreements; the rest is counted. */
const SHOWN_MOST = 1_000
/** Between pages, so that calls have the database to themselves for most of the time. */
const PAUSE_MS = 10

const ONE_AT_A_TIME = refusal('rate_limited', 'A check of the ledger is under way. Wait for its end.', {
  retryAfterSeconds: 10,
})

/** GET /operator/ledger-check. One at a time in a process. */
export function showLedgerCheck(dependencies: OperatorDependencies): Handle<SessionPrincipal> {
  const { clock, log } = dependencies
  let isOpen = false
  return (call) => {
    if (isOpen) return ONE_AT_A_TIME
    isOpen = true
    const close = call.holdOpen()
    const stream = textStream(checkRows(dependencies, call.isStillAllowed), {
      clock,
      signal: call.request.signal,
      longestMs: CHECK_LONGEST_MS,
      onEnd: (error) => {
        isOpen = false
        close()
        if (error !== null) log.warn({ err: error, requestId: call.requestId }, 'a check of the ledger broke off')
      },
    })
    return new Response(stream, { headers: { 'Content-Type': 'application/jsonl' } })
  }
}

async function* checkRows(
  { database, clock, isStopping }: OperatorDependencies,
  isStillAllowed: () => Promise<boolean>,
): AsyncGenerator<string, void> {
  const line = (row: z.infer<typeof ledgerCheckRow>) => `${JSON.stringify(row)}\n`
  yield line({ type: 'check', started_at: toTimestamp(clock.now()) })
  const pause = async () => {
    await sleep(clock, PAUSE_MS)
    if (isStopping()) throw new Error('the server stops')
  }
  let found = 0
  for await (const disagreement of verifyAll({ database, pause, checks: [planCheck, statementCheck] })) {
    found += 1
    if (found > SHOWN_MOST) continue
    if (!(await isStillAllowed())) throw new Error('its caller is no operator any more')
    const { kind, organizationId } = disagreement
    yield line({ type: 'disagreement', kind, organization_id: organizationId, message: describe(disagreement) })
  }
  yield line({ type: 'end', agrees: found === 0, disagreements: found })
}
