/** Bugs about slots of processes, and what dead processes leave under theirs. */

import type { PlantedBug } from './plantedBug.ts'

export const SLOT_BUGS: readonly PlantedBug[] = [
  {
    name: 'slots are taken over as soon as the database is up again',
    file: 'processes/ownersTime.ts',
    search: 'const OWNERS_FIRST_MS = MINUTE_MS\n',
    replace: 'const OWNERS_FIRST_MS = 0 * MINUTE_MS\n',
    shownBy: 'model',
    trouble: 'outages',
  },
  {
    name: "the database's start is asked for without the lock only",
    file: 'processes/slot.ts',
    search: ' || !(await mayTakeOver(tx))',
    replace: '',
    shownBy: 'model',
    trouble: 'outages',
  },
  {
    name: 'a slot is folded without asking for its lock',
    file: 'processes/slot.ts',
    search: 'if (!(await shareLock(tx, LOCK_CLASS.slot, slot)) || !(await mayTakeOver(tx))) return null',
    replace: 'if ((await shareLock(tx, LOCK_CLASS.slot, slot)) === null || !(await mayTakeOver(tx))) return null',
    shownBy: 'model',
  },
  {
    name: 'a reclaim folds what a living process has',
    file: 'billing/admission/slots/reclaimer.ts',
    search: 'if (!(await slot.isAbandoned(tx, number))) return false',
    replace: 'await slot.isAbandoned(tx, number)',
    shownBy: 'model',
  },
  {
    name: "what a slot's former owner left behind stays there",
    file: 'processes/slot.ts',
    search: '  await underOneTaking(() => takenAtMs, foldOwn)\n',
    replace: '',
    shownBy: 'model',
    trouble: 'pauses',
  },
  {
    name: 'a process that has another slot goes on by the number of the one that it lost',
    file: 'processes/slot.ts',
    search: '    number = own\n',
    replace: '    number ??= own\n',
    shownBy: 'model',
    trouble: 'cuts',
  },
]
