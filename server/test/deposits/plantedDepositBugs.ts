/** Bugs as people make them, each an exchange in a file of `server/src/payments/deposits`: what the histories must be able to see. */

import type { PlantedPaymentBug } from '../payments/plantedPaymentBugs.ts'

const TRANSFER_STORE = 'deposits/transfers/store.ts'
const WATCH = 'deposits/watch/watch.ts'

export const PLANTED_DEPOSIT_BUGS: readonly PlantedPaymentBug[] = [
  {
    name: 'what may be taken back counts as settled',
    exchanges: [
      {
        file: WATCH,
        search: 'const final = await reader.finalBlock()',
        replace: 'const final = { number: await reader.headBlock() }',
      },
      {
        file: WATCH,
        search: 'reader.finalTransfers(addresses, range)',
        replace: 'reader.newTransfers(addresses, range)',
      },
    ],
  },
  {
    name: 'the cursor moves before the transfers of its blocks are written',
    exchanges: [
      {
        file: WATCH,
        search: `    await database.transaction(async (tx) => {
      if (!(await lockCursor(tx, chain, settledBlock))) return
      await applyFinal(`,
        replace: `    await database.transaction((tx) => moveCursor(tx, chain, toBlock))
    await database.transaction(async (tx) => {
      await applyFinal(`,
      },
      // Once is enough: a second move, after the deposits are locked, would wait for a look that locks the two in their order.
      { file: WATCH, search: '      await moveCursor(tx, chain, toBlock)\n    })', replace: '    })' },
    ],
  },
  {
    name: 'the source of a credit leaves the place in the transaction out',
    exchanges: [
      {
        file: 'deposits/transfers/transfer.ts',
        search: `\`deposit:\${chain}:\${transactionHash}:\${ordinal}\``,
        replace: `\`deposit:\${chain}:\${transactionHash}:\${ordinal * 0}\``,
      },
    ],
  },
  {
    name: 'the credit is what was asked for, and not what has come',
    exchanges: [
      {
        file: 'deposits/transfers/decide.ts',
        search: 'const amountMicrocents = transfer.units * MICROCENTS_PER_UNIT',
        replace: 'const amountMicrocents = BigInt(deposit.amountCents) * MICROCENTS_PER_CENT',
      },
    ],
  },
  {
    name: 'any token that is taken is credited, not only the one that was asked for',
    exchanges: [
      {
        file: 'deposits/transfers/apply.ts',
        search: 'asset !== null && assets.get(depositId) === asset',
        replace: 'asset !== null && assets.has(depositId)',
      },
    ],
  },
  {
    name: 'a transfer that was dropped stays dropped when it is mined again',
    exchanges: [
      {
        file: TRANSFER_STORE,
        search: `state = excluded.state, due_at = excluded.due_at
       where t.state in ('detected', 'confirming', 'dropped')`,
        replace: `state = excluded.state, due_at = excluded.due_at
       where t.state in ('detected', 'confirming')`,
      },
    ],
  },
  {
    name: 'what a dead process was screening is never screened again',
    exchanges: [
      {
        file: TRANSFER_STORE,
        search: 'from deposit_transfers where due_at <= $1::timestamptz\n',
        replace: "from deposit_transfers where due_at <= $1::timestamptz and state <> 'screening'\n",
      },
    ],
  },
  {
    name: 'a transfer that the chain has taken back is not dropped',
    exchanges: [
      {
        file: 'deposits/transfers/apply.ts',
        search: '  await dropUnsettled(tx, chain, toBlock, [])\n',
        replace: '',
      },
      {
        file: 'deposits/transfers/apply.ts',
        search: '  await dropUnsettled(tx, chain, Number.MAX_SAFE_INTEGER, wanted)\n',
        replace: '',
      },
    ],
  },
  {
    name: 'small transfers are never worth a screening',
    exchanges: [{ file: TRANSFER_STORE, search: 'small >= $2::numeric', replace: 'small < $2::numeric - $2::numeric' }],
  },
  {
    name: 'a small transfer that makes up what was asked for is left',
    exchanges: [
      {
        file: TRANSFER_STORE,
        search: 'taken + small >= d.amount_cents * $4::numeric',
        replace: 'taken + small < d.amount_cents * $4::numeric - d.amount_cents * $4::numeric',
      },
    ],
  },
  {
    name: 'a cursor that is put back before the first block counts as never begun',
    exchanges: [
      {
        file: 'deposits/watch/store.ts',
        search: 'where chain = $1 and not is_begun',
        replace: 'where chain = $1 and settled_block = -1',
      },
    ],
  },
  {
    name: 'the sum of the credits of a deposit leaves some out',
    exchanges: [
      {
        file: 'deposits/transfers/decide.ts',
        search: '  await addCredited(tx, deposit.id, amountMicrocents)\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a deposit that was credited does not hear of a later transfer',
    exchanges: [
      {
        file: 'deposits/transfers/restate.ts',
        search: 'if (!isSame) await',
        replace: "if (!isSame && !deposit.status.startsWith('credited')) await",
      },
    ],
  },
  {
    name: 'an address of the pool is given out though its deposit is never made',
    exchanges: [
      {
        file: 'deposits/pool/offer.ts',
        search: "endReservation(tx, address, lease, 'given')",
        replace: "endReservation(database, address, lease, 'given')",
      },
    ],
  },
  {
    name: 'an address of the pool that was used before is given out',
    exchanges: [
      {
        file: 'deposits/pool/offer.ts',
        search: "if (history === 'none') return",
        replace: "if (history !== 'unknown') return",
      },
    ],
  },
]
