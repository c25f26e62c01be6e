import { uuidV7 } from '../kernel/ids.ts'
import { grantCredit } from '../money/grantCredit.ts'
import { findOrganizationByName } from '../organizations/find.ts'
import { type Command, DATA_DIR_OPTION, UsageFailure } from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { noteOf } from './note.ts'
import { parseUsd, printUsd } from './usd.ts'

/** `tollgate credits grant --org NAME --usd 50 [--note TEXT]` */
export const grantCreditsCommand: Command = {
  words: ['credits', 'grant'],
  summary: "Add credit to an organization's balance",
  options: [
    { name: 'org', value: 'NAME', summary: 'who gets it', required: true },
    { name: 'usd', value: 'AMOUNT', summary: 'US dollars, such as 50 or 12.50', required: true },
    { name: 'note', value: 'TEXT', summary: 'kept with the entry in the ledger' },
    { name: 'promotional', value: null, summary: 'a gift: does not count as the first payment of a new organization' },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate credits grant --org acme --usd 50 --note "invoice 2031-07"'],
  run: async (invocation, surroundings) => {
    const typed = invocation.required('usd')
    const amountMicrocents = parseUsd(typed)
    if (amountMicrocents === undefined) {
      throw new UsageFailure(
        `--usd "${typed}" is not an amount: use dollars above 0 and up to 1000000000, with at most 8 decimals, such as 12.50`,
      )
    }
    const note = noteOf(invocation)
    return await withDatabase(invocation, surroundings, async (database) => {
      const { clock, randomBytes } = surroundings
      const organization = orThrow(await findOrganizationByName(database, invocation.required('org')))
      const atMs = clock.now()
      const source = `grant:${uuidV7(atMs, randomBytes)}`
      await grantCredit(database, randomBytes, {
        organizationId: organization.id,
        amountMicrocents,
        source,
        note,
        isPayment: !invocation.flag('promotional'),
        atMs,
      })
      const amountUsd = printUsd(amountMicrocents)
      return {
        json: { org: organization.name, amount_usd: amountUsd, source, note },
        text: `Granted $${amountUsd} to "${organization.name}" (${source}).\n`,
      }
    })
  },
}
