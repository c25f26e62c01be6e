import type { Gauge } from '../../lib/gauge.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { OpenMoney } from '../admission/openMoney.ts'
import type { Share } from '../admission/share.ts'
import type { ChargingMoney } from './settle.ts'

/** Returns the figures of this process's money that operators watch. */
export function moneyGauges(money: OpenMoney & ChargingMoney): Gauge[] {
  const { writer } = money
  /** As a number it may be off by a trifle. */
  const sumOf = (amount: (share: Share) => bigint): number => {
    let sum = 0n
    for (const share of money.shares.values()) sum += amount(share)
    return Number(sum)
  }
  return [
    {
      name: 'tollgate_calls_waiting_for_money',
      help: 'Calls that wait for another to give money back.',
      read: () => money.waitingCalls,
    },
    { name: 'tollgate_unposted_charges', help: 'Charges not yet known to be durable.', read: () => writer.backlog },
    {
      name: 'tollgate_oldest_unposted_charge_seconds',
      help: 'Seconds that the oldest unposted charge has waited.',
      read: () => writer.oldestAgeMs / SECOND_MS,
    },
    {
      name: 'tollgate_shares',
      help: 'Organizations whose money this process works with.',
      read: () => money.shares.size,
    },
    {
      name: 'tollgate_held_microcents',
      help: 'The money that is held for open calls, in micro-cents.',
      read: () => sumOf((share) => share.heldMicrocents),
    },
    {
      name: 'tollgate_shares_microcents',
      help: 'The shares that this process holds, in micro-cents.',
      read: () => sumOf((share) => share.grantedMicrocents - share.postedMicrocents),
    },
    {
      name: 'tollgate_waiting_share_renewals',
      help: 'Organizations that wait for a renewal of their share.',
      read: () => writer.waitingRenewals,
    },
  ]
}
