import { changeByShell } from '../identity/audit/shell.ts'
import { findOrganizationByName } from '../identity/organizations/find.ts'
import type { Transaction } from '../infra/postgres/database.ts'
import { toTimestamp } from '../lib/time.ts'
import { FREEZE_REASONS, type Freeze, type FreezeReason } from '../payments/freezes/freeze.ts'
import { changeFreezes, freezeOrganization, unfreezeOrganization } from '../payments/freezes/freezes.ts'
import {
  type Command,
  CommandFailure,
  DATA_DIR_OPTION,
  type Invocation,
  type OptionSpec,
  UsageFailure,
} from './command.ts'
import { orThrow, withDatabase } from './environment.ts'
import { noteOf } from './note.ts'

const REASON_OPTION: OptionSpec = {
  name: 'reason',
  value: 'REASON',
  summary: FREEZE_REASONS.join(', '),
  required: true,
}

/** `tollgate orgs freeze NAME --reason REASON [--note TEXT]` */
export const freezeOrganizationCommand: Command = {
  words: ['orgs', 'freeze'],
  summary: 'Let an organization pay no more: no top-ups, no checkout; calls go on while there is credit',
  argument: { name: 'NAME', summary: 'the organization' },
  options: [
    REASON_OPTION,
    { name: 'note', value: 'TEXT', summary: 'why; kept, and shown to no customer' },
    DATA_DIR_OPTION,
  ],
  examples: ['tollgate orgs freeze acme --reason operator --note "ticket 812"'],
  run: (invocation, context) => {
    const reason = reasonOf(invocation)
    const note = noteOf(invocation)
    return withDatabase(invocation, context, async (database, clock) => {
      const { id, name } = orThrow(await findOrganizationByName(database, invocation.argument))
      const freezes = await changeByOperator(
        { database, clock, random: context.randomBytes },
        id,
        'organization.frozen',
        (tx) => freezeOrganization(tx, id, { reason, cause: '', note, frozenAtMs: clock.now() }),
      )
      return { json: toJson(name, freezes), text: `"${name}" is frozen: ${reasonsOf(freezes)}.\n` }
    })
  },
}

/** `tollgate orgs unfreeze NAME --reason REASON` */
export const unfreezeOrganizationCommand: Command = {
  words: ['orgs', 'unfreeze'],
  summary: 'Take a reason away for which an organization is frozen',
  argument: { name: 'NAME', summary: 'the organization' },
  options: [REASON_OPTION, DATA_DIR_OPTION],
  examples: ['tollgate orgs unfreeze acme --reason dispute'],
  run: (invocation, context) => {
    const reason = reasonOf(invocation)
    return withDatabase(invocation, context, async (database, clock) => {
      const { id, name } = orThrow(await findOrganizationByName(database, invocation.argument))
      let taken = 0
      const freezes = await changeByOperator(
        { database, clock, random: context.randomBytes },
        id,
        'organization.unfrozen',
        async (tx) => {
          taken = await unfreezeOrganization(tx, id, reason)
        },
      )
      if (taken === 0) {
        throw new CommandFailure(
          `"${name}" is not frozen for the reason ${reason}: it is frozen for ${reasonsOf(freezes)}`,
        )
      }
      const now = freezes.length === 0 ? 'is not frozen any more' : `is still frozen: ${reasonsOf(freezes)}`
      return { json: toJson(name, freezes), text: `"${name}" ${now}.\n` }
    })
  },
}

/** Changes the freezes of an organization, and says so in its audit log. */
async function changeByOperator(
  dependencies: Parameters<typeof changeByShell>[0],
  organizationId: string,
  action: string,
  change: (tx: Transaction) => Promise<void>,
): Promise<Freeze[]> {
  const changed = await changeByShell(dependencies, (tx, note) =>
    changeFreezes(
      tx,
      organizationId,
      () => change(tx),
      (fields) => note({ organizationId, action, subjectId: organizationId, ...fields }),
    ),
  )
  return orThrow(changed)
}

function reasonOf(invocation: Invocation): FreezeReason {
  const typed = invocation.required('reason')
  const reason = FREEZE_REASONS.find((each) => each === typed)
  if (reason !== undefined) return reason
  throw new UsageFailure(`--reason "${typed}" is not known: use one of ${FREEZE_REASONS.join(', ')}`)
}

/** Says for which reasons an organization is frozen, each once. */
export function reasonsOf(freezes: readonly Freeze[]): string {
  return [...new Set(freezes.map(({ reason }) => reason))].join(', ') || 'no reason'
}

function toJson(org: string, freezes: readonly Freeze[]) {
  return {
    org,
    frozen: freezes.length > 0,
    freezes: freezes.map(({ reason, cause, note, frozenAtMs }) => ({
      reason,
      cause: cause === '' ? null : cause,
      note,
      frozen_at: toTimestamp(frozenAtMs),
    })),
  }
}
