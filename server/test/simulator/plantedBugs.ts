/** Bugs as people make them, each one exchange in one file of `server/src`: what the simulator must be able to see. */

import type { TroubleName } from './plan.ts'

export interface PlantedBug {
  readonly name: string
  /** From `server/src`. */
  readonly file: string
  /** Stands in the file exactly once; a change of the code that moves it must move it here too. */
  readonly search: string
  readonly replace: string
  /** Statements are the model's own in a history without a server: a bug in SQL shows on PostgreSQL only. */
  readonly shownBy: 'model' | 'postgres'
  /** The trouble that it needs to show; left out: any history may show it. */
  readonly trouble?: TroubleName
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'a hold is released twice',
    file: 'money/wallet.ts',
    search: '    this.end(costMicrocents)\n  }',
    replace: '    this.release()\n    this.ended = false\n    this.end(costMicrocents)\n  }',
    shownBy: 'model',
  },
  {
    name: 'an extension takes nothing from the wallet',
    file: 'money/wallet.ts',
    search: '    this.wallet.heldMicrocents += more\n    this.amount = toMicrocents\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'an extension takes what is not there',
    file: 'money/wallet.ts',
    search: '    if (this.wallet.extendableMicrocents < more) return false\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'charges on their way count as money that is there',
    file: 'money/wallet.ts',
    search: 'return this.grantedMicrocents - this.postedMicrocents - this.unpostedMicrocents - this.heldMicrocents',
    replace: 'return this.grantedMicrocents - this.postedMicrocents - this.heldMicrocents',
    shownBy: 'model',
  },
  {
    name: 'nobody wakes the calls that wait when a hold ends',
    file: 'money/wallet.ts',
    search: '    this.wallet.unpostedMicrocents += costMicrocents\n    this.wallet.wakeAll()\n',
    replace: '    this.wallet.unpostedMicrocents += costMicrocents\n',
    shownBy: 'model',
  },
  {
    name: 'what was posted is subtracted from the next grant too',
    file: 'money/wallet.ts',
    search: '    this.postedMicrocents = 0n\n    this.beyond = refilled\n',
    replace: '    this.beyond = refilled\n',
    shownBy: 'model',
  },
  {
    name: 'a process that lost its slot goes on with what it was granted',
    file: 'money/wallet.ts',
    search: '  forgetAllotment(): void {\n    this.grantedMicrocents = 0n\n',
    replace: '  forgetAllotment(): void {\n',
    shownBy: 'model',
    trouble: 'cuts',
  },
  {
    name: 'what is given back stays in the wallet until the answer',
    file: 'money/wallet.ts',
    search: '    this.grantedMicrocents -= idle\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'a recall takes what calls hold',
    file: 'money/wallet.ts',
    search: '    const idle = this.spendableMicrocents\n',
    replace: '    const idle = this.spendableMicrocents + this.heldMicrocents\n',
    shownBy: 'model',
  },
  {
    name: 'a charge is posted and its commit not waited for',
    file: 'money/settle.ts',
    search: 'return (await money.writer.post(charge, wallet, riders)) ?',
    replace: 'return money.writer.post(charge, wallet, riders) ?',
    shownBy: 'model',
  },
  {
    name: 'a commit of unknown outcome counts as failed',
    file: 'money/writer.ts',
    search: "        log.warn({ err: error, charges: batch.length }, 'charges not posted yet; trying again')\n",
    replace:
      '        for (const { charge, wallet } of batch) wallet.unpostedMicrocents -= charge.costMicrocents\n        if (log) return\n',
    shownBy: 'model',
    trouble: 'losses',
  },
  {
    name: 'a batch is tried again by new charge ids',
    file: 'money/writer.ts',
    search: '  return batch.map(({ charge }) => charge)\n',
    replace: '  return batch.map(({ charge }) => ({ ...charge, chargeId: crypto.randomUUID() }))\n',
    shownBy: 'model',
    trouble: 'losses',
  },
  {
    name: 'a batch is tried again with the instant of the try',
    file: 'money/writer.ts',
    search: 'postCharges(database, slot, chargesOf(batch), clock.now())\n',
    replace:
      'postCharges(database, slot, chargesOf(batch).map((each) => ({ ...each, admittedAtMs: clock.now() })), clock.now())\n',
    shownBy: 'model',
    trouble: 'losses',
  },
  {
    name: 'a row that is refused takes its neighbours with it',
    file: 'money/writer.ts',
    search: '      await this.postUntilKnown(batch.slice(middle))\n',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'a call that waited in vain stays a user of its wallet',
    file: 'money/admit.ts',
    search: '  } finally {\n    wallet.users -= 1\n  }\n',
    replace: '  } finally {\n    money.waitingCalls += 0\n  }\n',
    shownBy: 'model',
  },
  {
    name: 'calls are admitted without a slot',
    file: 'money/admit.ts',
    search: '  if (!money.ownsSlot() || ',
    replace: '  if (',
    shownBy: 'model',
    trouble: 'cuts',
  },
  {
    name: 'calls are admitted while commits do not come back',
    file: 'money/admit.ts',
    search: 'money.writer.oldestAgeMs > STALLED_MS || ',
    replace: '',
    shownBy: 'model',
  },
  {
    name: 'a call whose upstream fails keeps its hold',
    file: 'chat/call.ts',
    search: '    } catch (error) {\n      admitted.hold.release()\n      return this.failed(',
    replace: '    } catch (error) {\n      return this.failed(',
    shownBy: 'model',
  },
  {
    name: 'wallets that nobody uses keep their allotments',
    file: 'money/openMoney.ts',
    search: '[...idle.filter(({ hasAsked }) => hasAsked), ...passing]',
    replace: 'passing',
    shownBy: 'model',
  },
  {
    name: 'slots are taken over as soon as the database is up again',
    file: 'money/slot.ts',
    search: 'const OWNERS_FIRST_MS = MINUTE_MS\n',
    replace: 'const OWNERS_FIRST_MS = 0 * MINUTE_MS\n',
    shownBy: 'model',
    trouble: 'outages',
  },
  {
    name: "the database's start is asked for without the lock only",
    file: 'money/slot.ts',
    search: ' || !(await mayTakeOver(options, tx))',
    replace: '',
    shownBy: 'model',
    trouble: 'outages',
  },
  {
    name: 'a slot is folded without asking for its lock',
    file: 'money/slot.ts',
    search: 'if (!(await lockForTransaction(tx, LOCK_CLASS.slot, slot)) || ',
    replace: 'if ((await lockForTransaction(tx, LOCK_CLASS.slot, slot)) === null || ',
    shownBy: 'model',
  },
  {
    name: "what a slot's former owner left behind stays there",
    file: 'money/slot.ts',
    search: '  await foldOwn(own)\n',
    replace: '',
    shownBy: 'model',
    trouble: 'crashes',
  },
  {
    name: 'a folded slice is subtracted twice',
    file: 'money/accounts/store.ts',
    search: 'd.balance_microcents - s.spent as balance',
    replace: 'd.balance_microcents - 2 * s.spent as balance',
    shownBy: 'postgres',
  },
  {
    name: 'a folded slice is not subtracted from the allotment',
    file: 'money/accounts/store.ts',
    search: 'greatest(d.granted - s.spent - coalesce(d.give_back, 0), 0) as kept',
    replace: 'greatest(d.granted - coalesce(d.give_back, 0), 0) as kept',
    shownBy: 'postgres',
  },
  {
    name: 'a refill ignores the monthly limit',
    file: 'money/accounts/store.ts',
    search: 'least(room_balance, room_daily, room_monthly, room_new_account) as room',
    replace: 'least(room_balance, room_daily, room_new_account) as room',
    shownBy: 'postgres',
  },
  {
    name: 'the cap of new accounts ignores what is set aside',
    file: 'money/accounts/store.ts',
    search: 'case when is_new then $11::bigint - hour_spent - allotted end',
    replace: 'case when is_new then $11::bigint - hour_spent end',
    shownBy: 'postgres',
  },
  {
    name: 'a new day begins with what the old one had spent',
    file: 'money/accounts/store.ts',
    search: 'case when d.day = d.today then d.day_spent_microcents else 0 end',
    replace: 'd.day_spent_microcents',
    shownBy: 'postgres',
  },
  {
    name: 'a refill grants by what it has read and not locked',
    file: 'money/accounts/store.ts',
    search: '    order by a.organization_id\n    for update of a\n',
    replace: '    order by a.organization_id\n',
    shownBy: 'postgres',
  },
]
