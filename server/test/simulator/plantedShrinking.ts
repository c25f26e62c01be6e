/** Bugs about holds that are shrunk where limits stop running calls (P5). */

import type { PlantedBug } from './plantedBug.ts'

export const SHRINKING_BUGS: readonly PlantedBug[] = [
  {
    name: 'no hold is shrunk',
    file: 'billing/admission/share.ts',
    search: '    for (const hold of this.shrinkable) freed += hold.shrink()\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'holds are shrunk only while a call waits',
    file: 'billing/admission/share.ts',
    search: 'if (!this.stopsRunning || ',
    replace: 'if (this.waiting.length === 0 || !this.stopsRunning || ',
    shownBy: 'model',
  },
  {
    name: 'a hold is shrunk below what its answer has used',
    file: 'inference/chat/generation.ts',
    search: 'const reach = this.tokensSoFar + STEP_TOKENS + hiddenTokens\n',
    replace: 'const reach = STEP_TOKENS + hiddenTokens\n',
    shownBy: 'model',
  },
  {
    name: 'an answer goes on by what its hold was before it was shrunk',
    file: 'inference/chat/generation.ts',
    search: '  onShrunk(): void {\n    this.tokensHeld = this.tokensFor(this.budget.hold.microcents)\n',
    replace: '  onShrunk(): void {\n    this.tokensHeld += 0\n',
    shownBy: 'model',
  },
  {
    name: 'what a hold was shrunk by is given back again when it ends',
    file: 'billing/admission/share.ts',
    search: '    this.amount = least\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'a hold that no answer uses yet is not shrunk',
    file: 'billing/admission/share.ts',
    search: '    if (leastMicrocents < microcents) this.setShrinkable(true)\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'processes are not told of a lowered limit',
    file: 'billing/admission/accounts/limit.ts',
    search: '  if (done) await tellChange(database, organizationId)\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'processes are not told of a debit',
    file: 'billing/ledger/adjust.ts',
    search: '  if (adjustment.amountMicrocents < 0n) await tellDebit(database, adjustment.organizationId)\n',
    replace: '',
    shownBy: 'model',
  },
]
