import { namesOfOrganizations } from '../identity/organizations/find.ts'
import { MICROCENTS_PER_CENT } from '../lib/money.ts'
import { createBar } from '../lib/progressBar.ts'
import { table } from '../lib/table.ts'
import { toTimestamp } from '../lib/time.ts'
import { printUsd } from '../lib/usd.ts'
import type { ProviderWindow } from '../payments/provider/reversal.ts'
import type { DifferenceKind, PaymentDifference } from '../payments/reconcile/difference.ts'
import { noteReconciled, openWindow, reconcile } from '../payments/reconcile/reconcile.ts'
import { finishRefunds } from '../payments/reversals/refund.ts'
import { CONFIG_OPTION, type Command, DATA_DIR_OPTION } from './command.ts'
import type { CommandContext } from './context.ts'
import { type PaymentTools, withPayments } from './paymentTools.ts'
import { pastInstantOf } from './window.ts'

const DIFFERS = 1

/** Shown of what differs; the rest is counted. */
const SHOWN_MOST = 1_000

/** `tollgate payments reconcile [--since WHEN]` */
export const reconcilePaymentsCommand: Command = {
  words: ['payments', 'reconcile'],
  summary:
    'Compare ledger and payment provider, and post what is missing; exit with 1 if something still differs or can not be read',
  options: [
    {
      name: 'since',
      value: 'WHEN',
      summary: 'from then on: a time back (90d) or an ISO date',
      preset: 'the last reconciled instant',
    },
    DATA_DIR_OPTION,
    CONFIG_OPTION,
  ],
  examples: ['tollgate payments reconcile', 'tollgate payments reconcile --since 90d'],
  run: (invocation, context) =>
    withPayments(invocation, context, async (tools) => {
      const { database, provider, clock } = tools
      const nowMs = clock.now()
      const open = await openWindow(database, provider.name, nowMs)
      const window = { fromMs: pastInstantOf(invocation, 'since', nowMs) ?? open.fromMs, untilMs: nowMs }
      await finishRefunds(tools)
      // A window that begins later would leave a stretch that nobody has compared.
      const isWhole = window.fromMs <= open.fromMs
      const note = (untilMs: number) =>
        isWhole && untilMs > open.fromMs ? noteReconciled(database, provider.name, untilMs) : Promise.resolve()
      const progress = createProgress(context, invocation.json, window)
      const compared = reconcile(tools, window, { onReconciled: note, ...progress })
      const { shown, found, left, unreadable } = await gather(compared).finally(progress.end)
      const json = {
        since: toTimestamp(window.fromMs),
        until: toTimestamp(nowMs),
        differences: found,
        posted: found - left,
        left,
        unreadable,
        shown: await rowsOf(tools, shown),
      }
      const summary = `Compared everything from ${json.since} on.\n${found} differed: ${json.posted} posted now, ${left} left.\n${unreadableOf(unreadable)}`
      const text = `${json.shown.length === 0 ? '' : textOf(json.shown, context)}${summary}`
      if (left === 0 && unreadable === 0) return { json, text }
      context.stdout(invocation.json ? `${JSON.stringify(json)}\n` : text)
      return { exitCode: DIFFERS }
    }),
}

/** A progress bar for terminals: how much of the window has been compared, and how many of the payment provider's objects. */
function createProgress(context: CommandContext, isJson: boolean, { fromMs, untilMs }: ProviderWindow) {
  const bar = context.stderrIsTerminal && !isJson ? createBar(context) : undefined
  let [share, listed] = [0, 0]
  const draw = () => bar?.draw(share, `${listed.toLocaleString('en-US')} compared`)
  return {
    onCompared(atMs: number) {
      share = (atMs - fromMs) / (untilMs - fromMs)
      draw()
    },
    onListed(count: number) {
      listed += count
      draw()
    },
    end: () => bar?.end(),
  }
}

async function gather(differences: AsyncIterable<PaymentDifference>) {
  const shown: PaymentDifference[] = []
  let [found, left, unreadable] = [0, 0, 0]
  for await (const difference of differences) {
    if (difference.kind === 'unreadable') unreadable += 1
    else {
      found += 1
      if (!difference.isMended) left += 1
    }
    if (shown.length < SHOWN_MOST) shown.push(difference)
  }
  return { shown, found, left, unreadable }
}

function unreadableOf(count: number): string {
  if (count === 0) return ''
  const objects = count === 1 ? '1 object' : `${count} objects`
  return `${objects} of the payment provider can't be read now: run this again later. All others are compared.\n`
}

async function rowsOf({ database }: PaymentTools, differences: readonly PaymentDifference[]) {
  const names = await namesOfOrganizations(
    database,
    differences.flatMap(({ organizationId }) => organizationId ?? []),
  )
  return differences.map(({ kind, object, organizationId, amountCents, isMended, unreadable }) => ({
    kind,
    object,
    org: organizationId === null ? null : (names.get(organizationId) ?? organizationId),
    amount_usd: amountCents === null ? null : printUsd(BigInt(amountCents) * MICROCENTS_PER_CENT),
    posted: isMended,
    ...(unreadable === undefined ? {} : { why: unreadable.why }),
  }))
}

const SAYS: Readonly<Record<DifferenceKind, string>> = {
  payment: 'was missing here',
  subscription: 'was missing here',
  reversal: 'was missing here',
  amount: 'another amount there',
  payment_not_there: 'not listed there',
  reversal_not_there: 'not listed there',
  ledger: 'another sum in the ledger',
  unreadable: "can't be read now",
}

function textOf(rows: Awaited<ReturnType<typeof rowsOf>>, { stdoutColumns }: CommandContext): string {
  return table(
    ['OBJECT', 'ORGANIZATION', 'USD', 'DIFFERENCE', 'NOW'],
    rows.map(({ kind, object, org, amount_usd: usd, posted }) => [
      object,
      org ?? '-',
      usd ?? '-',
      SAYS[kind],
      posted ? 'posted' : '-',
    ]),
    '',
    stdoutColumns,
  )
}
