import type { ListedCharge } from '../billing/statements/charges/charge.ts'
import { listCharges } from '../billing/statements/charges/read.ts'
import { windowOf } from '../billing/usage/bucket.ts'
import { findAnyOrganization } from '../identity/organizations/find.ts'
import { shortInstant } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { PAGE_OPTIONS, showPages } from './pages.ts'
import { END_OPTION, pastInstantOf } from './window.ts'

/** `tollgate charges list --org NAME` */
export const listChargesCommand: Command = {
  words: ['charges', 'list'],
  summary: "List an organization's charges, newest first",
  options: [
    { name: 'org', value: 'NAME', summary: 'whose', required: true },
    { name: 'start', value: 'WHEN', summary: 'from: a time ago (7d) or an ISO date', preset: '30 days before the end' },
    END_OPTION,
    ...PAGE_OPTIONS,
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate charges list --org acme', 'tollgate charges list --org acme --start 2031-07-01 --all --json'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const nowMs = clock.now()
      const window = windowOf(pastInstantOf(invocation, 'start', nowMs), pastInstantOf(invocation, 'end', nowMs), nowMs)
      if (window === null) throw new UsageFailure('--start must be before --end (which is now when left out)')
      const organization = orThrow(await findAnyOrganization(database, invocation.required('org')))
      return await showPages(invocation, context, {
        async read(afterId, limit) {
          const charges = await listCharges(database, organization.id, { ...window, limit }, afterId)
          if (charges !== null) return charges
          // A page of this run ended in it: retention has dropped its day, the oldest, since then.
          if (afterId !== invocation.text('after')) return []
          throw new UsageFailure(
            `--after "${afterId}" is no charge of "${organization.name}": use the last id of a page`,
          )
        },
        toJson,
        heading: ['ADMITTED', 'ID', 'MODEL', 'USAGE', 'USD'],
        cells: (charge) => [
          shortInstant(toTimestamp(charge.admittedAtMs)),
          charge.id,
          charge.model,
          usageOf(charge),
          printUsd(charge.costMicrocents),
        ],
        none: `"${organization.name}" has no charges from ${shortInstant(toTimestamp(window.startMs))} on.`,
      })
    }),
}

function usageOf({ modality, promptTokens, completionTokens, imageCount, videoSeconds }: ListedCharge): string {
  if (modality === 'image') return imageCount === 1 ? '1 image' : `${imageCount} images`
  if (modality === 'video') return `${videoSeconds} s`
  if (modality === 'instance') return 'up to a minute'
  return modality === 'embedding' ? `${promptTokens} tokens` : `${promptTokens} + ${completionTokens} tokens`
}

function toJson(charge: ListedCharge) {
  return {
    id: charge.id,
    admitted_at: toTimestamp(charge.admittedAtMs),
    key_id: charge.keyId,
    model: charge.model,
    tier: charge.tier,
    modality: charge.modality,
    prompt_tokens: String(charge.promptTokens),
    completion_tokens: String(charge.completionTokens),
    image_count: charge.imageCount,
    video_seconds: charge.videoSeconds,
    estimated: charge.estimated,
    cost_usd: printUsd(charge.costMicrocents),
    plan_covered: charge.isCovered,
    target: charge.target,
    outcome: charge.outcome,
  }
}
