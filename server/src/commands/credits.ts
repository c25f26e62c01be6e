import { grantCredit } from '../billing/ledger/grantCredit.ts'
import { listEntries } from '../billing/statements/list.ts'
import type { ListedEntry } from '../billing/statements/statement.ts'
import { changeByShell } from '../identity/audit/shell.ts'
import { findAnyOrganization, findOrganizationByName } from '../identity/organizations/find.ts'
import { uuidV7 } from '../lib/ids.ts'
import { toCentsOfLog } from '../lib/money.ts'
import { shortInstant } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { parseUsd, printUsd } from '../lib/usd.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { noteOf } from './note.ts'
import { PAGE_OPTIONS, showPages } from './pages.ts'
import { END_OPTION, pastInstantOf } from './window.ts'

/** `tollgate credits grant --org NAME --usd 50 [--note TEXT]` */
export const grantCreditsCommand: Command = {
  words: ['credits', 'grant'],
  summary: "Add credit to an organization's balance",
  options: [
    { name: 'org', value: 'NAME', summary: 'the organization that gets it', required: true },
    { name: 'usd', value: 'AMOUNT', summary: 'US dollars, such as 50 or 12.50', required: true },
    { name: 'note', value: 'TEXT', summary: 'kept with the entry in the ledger' },
    { name: 'promotional', value: null, summary: 'a gift: does not count as the first payment of a new account' },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate credits grant --org acme --usd 50 --note "invoice 2031-07"'],
  run: async (invocation, context) => {
    const typed = invocation.required('usd')
    const amountMicrocents = parseUsd(typed)
    if (amountMicrocents === undefined) {
      throw new UsageFailure(
        `--usd "${typed}" is not an amount: use dollars above 0 and up to 1000000000, with at most 8 decimals, such as 12.50`,
      )
    }
    const note = noteOf(invocation)
    return await withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes: random } = context
      const organization = orThrow(await findOrganizationByName(database, invocation.required('org')))
      const { id: organizationId } = organization
      const promotional = invocation.flag('promotional')
      const atMs = clock.now()
      const source = `grant:${uuidV7(atMs, random)}`
      const granted = await changeByShell({ database, clock, random }, async (tx, audit) => {
        await grantCredit(tx, random, { organizationId, amountMicrocents, source, note, isPayment: !promotional, atMs })
        const after = { amount_cents: toCentsOfLog(amountMicrocents), promotional, source }
        await audit({ organizationId, action: 'credit.granted', subjectId: organizationId, before: null, after })
      })
      orThrow(granted)
      const amountUsd = printUsd(amountMicrocents)
      return {
        json: { org: organization.name, amount_usd: amountUsd, source, note },
        text: `Granted $${amountUsd} to "${organization.name}" (${source}).\n`,
      }
    })
  },
}

/** `tollgate credits list --org NAME` */
export const listCreditsCommand: Command = {
  words: ['credits', 'list'],
  summary: "List what was added to an organization's balance or taken from it, but for charges, newest first",
  options: [
    { name: 'org', value: 'NAME', summary: 'whose', required: true },
    END_OPTION,
    ...PAGE_OPTIONS,
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate credits list --org acme'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database, clock) => {
      const nowMs = clock.now()
      // Without --end an entry of this very millisecond is listed too.
      const endMs = pastInstantOf(invocation, 'end', nowMs) ?? nowMs + 1
      const organization = orThrow(await findAnyOrganization(database, invocation.required('org')))
      return await showPages(invocation, context, {
        async read(afterId, limit) {
          const entries = await listEntries(database, organization.id, { endMs, afterId, limit })
          if (entries !== null) return entries
          throw new UsageFailure(
            `--after "${afterId}" is no entry of "${organization.name}": use the last id of a page`,
          )
        },
        toJson,
        heading: ['POSTED', 'KIND', 'USD', 'NOTE'],
        cells: ({ postedAtMs, kind, amountMicrocents, note }) => [
          shortInstant(toTimestamp(postedAtMs)),
          kind,
          printUsd(amountMicrocents),
          note ?? '-',
        ],
        none: `"${organization.name}" has no entries: add credit with "tollgate credits grant --org NAME --usd AMOUNT".`,
      })
    }),
}

function toJson({ id, postedAtMs, kind, amountMicrocents, source, note }: ListedEntry) {
  return { id, posted_at: toTimestamp(postedAtMs), kind, amount_usd: printUsd(amountMicrocents), source, note }
}
