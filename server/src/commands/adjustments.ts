import { adjustBalance } from '../billing/ledger/adjust.ts'
import { recordByShell } from '../identity/audit/shell.ts'
import { findAnyOrganization } from '../identity/organizations/find.ts'
import { uuidV7 } from '../lib/ids.ts'
import { toCentsOfLog } from '../lib/money.ts'
import { parseSignedUsd, printUsd } from '../lib/usd.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { noteOf } from './note.ts'

/** `tollgate adjustments create --org NAME --usd -5.00 --note TEXT` */
export const createAdjustmentCommand: Command = {
  words: ['adjustments', 'create'],
  summary: "Correct an organization's balance by hand, up or down",
  options: [
    { name: 'org', value: 'NAME', summary: 'whose balance', required: true },
    {
      name: 'usd',
      value: 'AMOUNT',
      summary: 'US dollars; below 0 to take some away',
      required: true,
      mayBeNegative: true,
    },
    { name: 'note', value: 'TEXT', summary: 'why; kept with the entry in the ledger', required: true },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate adjustments create --org acme --usd -5.00 --note "credited twice on 2031-07-02"'],
  run: async (invocation, context) => {
    const typed = invocation.required('usd')
    const amountMicrocents = parseSignedUsd(typed)
    if (amountMicrocents === undefined) {
      throw new UsageFailure(
        `--usd "${typed}" is not an amount: use dollars other than 0 and up to 1000000000, with at most 8 decimals, such as -5.00`,
      )
    }
    const note = noteOf(invocation) ?? ''
    return await withDatabase(invocation, context, async (database, clock) => {
      const { randomBytes: random } = context
      const organization = orThrow(await findAnyOrganization(database, invocation.required('org')))
      const { id: organizationId } = organization
      const atMs = clock.now()
      const source = `adjustment:${uuidV7(atMs, random)}`
      const after = { amount_cents: toCentsOfLog(amountMicrocents), source }
      const entry = { organizationId, action: 'balance.adjusted', subjectId: organizationId, before: null, after }
      await adjustBalance(database, random, { organizationId, amountMicrocents, source, note, atMs }, (tx) =>
        recordByShell(tx, { clock, random }, entry),
      )
      const amountUsd = printUsd(amountMicrocents)
      return {
        json: { org: organization.name, amount_usd: amountUsd, source, note },
        text: `Adjusted the balance of "${organization.name}" by $${amountUsd} (${source}).\n`,
      }
    })
  },
}
