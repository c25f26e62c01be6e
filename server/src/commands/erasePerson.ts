import { enqueueLastMail } from '../identity/accounts/mail/lastMail.ts'
import { erasePerson } from '../identity/accounts/ownData/erase.ts'
import { type ErasedAddress, eraseAddress } from '../identity/accounts/ownData/eraseAddress.ts'
import { findPersonByEmail } from '../identity/accounts/people/find.ts'
import { SHELL } from '../identity/audit/shell.ts'
import { readMailAddress } from '../lib/mailAddress.ts'
import { CONFIG_OPTION, type Command, CommandFailure, DATA_DIR_OPTION } from './command.ts'
import { configOf, orThrow, withDatabase } from './environment.ts'

/** `tollgate users erase EMAIL --confirm EMAIL` */
export const erasePersonCommand: Command = {
  words: ['users', 'erase'],
  summary:
    'Erase a person for good: name, address, sessions, memberships and their API keys; or an address of no account',
  argument: { name: 'EMAIL', summary: "the person's mail address" },
  options: [
    { name: 'confirm', value: 'EMAIL', summary: 'the address once more', required: true },
    CONFIG_OPTION,
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate users erase ada@example.com --confirm ada@example.com'],
  run: async (invocation, context) => {
    const typed = invocation.argument
    const again = invocation.required('confirm')
    if (again.toLowerCase() !== typed.toLowerCase())
      throw new CommandFailure(
        `"${again}" is not the address "${typed}": nothing was erased; type the same address twice`,
      )
    const { settings } = await configOf(invocation, context)
    const { randomBytes: random } = context
    return withDatabase(invocation, context, async (database, clock) => {
      const email = readMailAddress(typed)
      if (email === null) throw new CommandFailure(`"${typed}" is no mail address: check it`)
      const person = await findPersonByEmail(database, email)
      if (person === null) {
        const erased = orThrow(await eraseAddress({ database, clock, random }, { email, actor: SHELL }))
        return { json: { id: null, ...erased }, text: textOf(email, erased) }
      }
      const tellErased: Parameters<typeof erasePerson>[0]['tellErased'] =
        settings.fixed.smtp === null ? async () => {} : (tx, to, atMs) => enqueueLastMail(tx, random, to, atMs)
      const erasure = { userId: person.id, provenHash: null, actor: SHELL }
      const { id, ...ended } = orThrow(await erasePerson({ database, clock, random, tellErased }, erasure))
      return {
        json: { id, ...ended },
        text: `Erased ${person.email}. Memberships that have ended: ${ended.memberships}. Keys that were revoked: ${ended.keys}.\n`,
      }
    })
  },
}

function textOf(email: string, { invitations, entries, organizations }: ErasedAddress): string {
  const counts = `Invitations: ${invitations}. Entries of the audit log: ${entries}. Organizations that told it of their limits: ${organizations}.`
  return `Nobody has an account with ${email}. The address was erased where it stood. ${counts}\n`
}
