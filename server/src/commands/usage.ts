import { BUCKETS, defaultBucket, windowOf } from '../billing/usage/bucket.ts'
import { readUsagePage } from '../billing/usage/read.ts'
import { findAnyOrganization } from '../identity/organizations/find.ts'
import { shortInstant, table } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { END_OPTION, limitOf, pastInstantOf } from './window.ts'

const BUCKETS_MAX = 200

/** `tollgate usage --org NAME` */
export const showUsageCommand: Command = {
  words: ['usage'],
  summary: "Show an organization's cost by hour, day, week or month, as GET /v1/usage does",
  options: [
    { name: 'org', value: 'NAME', summary: 'whose', required: true },
    { name: 'bucket', value: 'SIZE', summary: `${BUCKETS.join(', ')}; by the length of the time when left out` },
    { name: 'start', value: 'WHEN', summary: 'from: a time ago (7d) or an ISO date', preset: '30 days before the end' },
    END_OPTION,
    { name: 'limit', value: 'N', summary: `how many buckets, 1 to ${BUCKETS_MAX}`, preset: '50' },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate usage --org acme --start 7d', 'tollgate usage --org acme --bucket month --start 2031-01-01'],
  run: async (invocation, context) => {
    const limit = limitOf(invocation, BUCKETS_MAX)
    return await withDatabase(invocation, context, async (database, clock) => {
      const nowMs = clock.now()
      const window = windowOf(pastInstantOf(invocation, 'start', nowMs), pastInstantOf(invocation, 'end', nowMs), nowMs)
      if (window === null) throw new UsageFailure('--start must be before --end (which is now when left out)')
      const typed = invocation.text('bucket')
      const bucket = typed === undefined ? defaultBucket(window) : BUCKETS.find((each) => each === typed)
      if (bucket === undefined)
        throw new UsageFailure(`--bucket "${typed}" is not known: use one of ${BUCKETS.join(', ')}`)
      const organization = orThrow(await findAnyOrganization(database, invocation.required('org')))
      const question = { ...window, bucket, groupBy: null }
      const dependencies = { database, clock }
      const page = await readUsagePage(dependencies, organization.id, question, { after: null, limit })
      const rows = page.buckets.map(({ startMs, cents }) => ({ bucket_start: toTimestamp(startMs), cost_cents: cents }))
      const last = page.next === null ? undefined : rows.at(-1)
      const none = `"${organization.name}" used nothing from ${shortInstant(toTimestamp(window.startMs))} on.`
      return {
        json: rows,
        text:
          table(
            [bucket.toUpperCase(), 'USD'],
            rows.map((row) => [shortInstant(row.bucket_start), (row.cost_cents / 100).toFixed(2)]),
            none,
            context.stdoutColumns,
          ) +
          (last === undefined
            ? ''
            : `There are more after ${shortInstant(last.bucket_start)}: raise --limit, or --start later.\n`),
      }
    })
  },
}
