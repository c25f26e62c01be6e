import { verifyAll } from '../billing/ledger/verifyAll.ts'
import { planCheck } from '../billing/plans/verify.ts'
import { statementCheck } from '../billing/statements/closing/verify.ts'
import { type Disagreement, describe, disagreementToJson } from '../lib/disagreement.ts'
import { type Command, DATA_DIR_OPTION } from './command.ts'
import { withDatabase } from './environment.ts'

const DISAGREES = 1

/** Shown of what disagrees; the rest is counted. One fault in the code is the same a million times. */
const SHOWN_MOST = 1_000

/** `tollgate ledger verify` */
export const verifyLedgerCommand: Command = {
  words: ['ledger', 'verify'],
  summary: 'Recompute every balance, charge, rollup, meter and statement; exit with 1 if something disagrees',
  options: [DATA_DIR_OPTION],
  examples: ['tollgate ledger verify'],
  run: (invocation, context) =>
    withDatabase(invocation, context, async (database) => {
      const shown: Disagreement[] = []
      let found = 0
      for await (const disagreement of verifyAll({
        database,
        pause: async () => {},
        checks: [planCheck, statementCheck],
      })) {
        found += 1
        if (shown.length < SHOWN_MOST) shown.push(disagreement)
      }
      const json = { agrees: found === 0, disagreements: found, shown: shown.map(disagreementToJson) }
      const text =
        found === 0
          ? 'The books agree: every balance, charge, rollup, share and meter of a plan.\n'
          : [...shown.map(describe), ...summaryOf(found)].map((line) => `${line}\n`).join('')
      if (found === 0) return { json, text }
      context.stdout(invocation.json ? `${JSON.stringify(json)}\n` : text)
      return { exitCode: DISAGREES }
    }),
}

function summaryOf(found: number): string[] {
  const rest = found > SHOWN_MOST ? ` (the first ${SHOWN_MOST} are shown)` : ''
  return [`The books disagree in ${found} ${found === 1 ? 'place' : 'places'}${rest}.`]
}
