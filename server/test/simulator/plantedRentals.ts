/** Bugs about instances and the money that is held for them. */

import type { PlantedBug } from './plantedBug.ts'

export const RENTAL_BUGS: readonly PlantedBug[] = [
  {
    name: 'what is charged of an instance stays held',
    file: 'instances/endLife.ts',
    search:
      '  await shrinkInstanceHold(tx, holdOf(instance), holdOf(instance).microcents - holdOf(settled).microcents)\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'the hold of an instance that is over stays',
    file: 'instances/endLife.ts',
    search: '  await endInstanceHold(tx, holdOf(charged.instance), instance.hourMicrocents)\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'an instance is billed by what was read before its row was locked',
    file: 'instances/bill.ts',
    search: '    const own = await lockInstance(tx, instance.id)\n',
    replace: '    const own = await lockInstance(tx, instance.id).then(() => instance)\n',
    shownBy: 'model',
  },
  {
    name: 'more seconds of an instance are charged than were held for',
    file: 'instances/endLife.ts',
    search: '  const endSecond = Math.min(toSecond, instance.heldSecond)\n',
    replace: '  const endSecond = toSecond\n',
    shownBy: 'model',
    trouble: 'clocks',
  },
  {
    name: 'a renewal grants what instances hold',
    file: 'billing/admission/renewal/store.ts',
    search: 'balance - shares - held_microcents as headroom_balance',
    replace: 'balance - shares as headroom_balance',
    shownBy: 'postgres',
  },
  {
    name: 'an instance is held for of what processes were granted',
    file: 'billing/admission/holds/store.ts',
    search: 'balance_microcents - shares_microcents - held_microcents >= $2::bigint\n       and (enforcement',
    replace: 'balance_microcents - held_microcents >= $2::bigint\n       and (enforcement',
    shownBy: 'postgres',
  },
]
