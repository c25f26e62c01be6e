import { MICROCENTS_PER_DOLLAR } from '../../lib/money.ts'
import { quotedName } from '../../lib/nameCharacters.ts'
import { utcDay } from '../../lib/time.ts'
import type { Notice } from './notice.ts'

export interface Letter {
  readonly subject: string
  /** Plain text, in lines of at most 78 characters but for an organization's name and a link. */
  readonly text: string
}

/**
 * Returns the mail of a notice: the event, the figures, the consequence, and how to mend it. `hasAccounts`: admins of the organization can
 * change the addresses.
 */
export function writeLetter(notice: Notice, hasAccounts: boolean): Letter {
  const { happened, figures, means, mend } = TELLERS[notice.kind](notice)
  const paragraphs = [
    'Hello,',
    happened,
    figures.map(([name, value]) => `  ${`${name}:`.padEnd(22)}${value}`).join('\n'),
    means,
    mend,
    `You get this mail because your address is set for notices of this organization.\n${hasAccounts ? BY_ADMIN : BY_OPERATOR}`,
  ]
  return {
    subject: `${quotedName(notice.organizationName)}: ${SUBJECTS[notice.kind]}`,
    text: `${paragraphs.join('\n\n')}\n`,
  }
}

const BY_OPERATOR = 'To change who gets it, ask your operator.'
const BY_ADMIN =
  'An admin of the organization can change who gets it\n(PATCH /manage/v1/organization, "notify_addresses").'

const SUBJECTS: Readonly<Record<Notice['kind'], string>> = {
  daily: 'the daily spending limit is reached',
  monthly: 'the monthly spending limit is reached',
  new_account: 'the spending cap of new accounts is reached',
  low_balance: 'the credit balance is low',
  auto_pay_off: 'auto-pay is switched off',
  auto_pay_authentication: 'your bank asks you to confirm a payment',
  instance_ending: 'an instance is about to be deleted',
}

interface Told {
  readonly happened: string
  readonly figures: readonly (readonly [name: string, value: string])[]
  readonly means: string
  readonly mend: string
}

const TELLERS: Readonly<Record<Notice['kind'], (notice: Notice) => Told>> = {
  daily: (notice) => tellLimit(notice, 'daily', utcDay(notice.periodMs), 'at 00:00 UTC'),
  monthly: (notice) =>
    tellLimit(notice, 'monthly', utcDay(notice.periodMs).slice(0, 7), 'when the next month begins, at 00:00 UTC'),
  new_account: (notice) => ({
    happened: `${quotedName(notice.organizationName)} has reached the spending cap of new accounts.`,
    figures: [
      ['Spent in 60 minutes', usd(notice.amountMicrocents)],
      ['Cap', usd(notice.limitMicrocents)],
      ['Seen', instant(notice)],
    ],
    means:
      'Calls that would pass the cap are refused with 402 quota_exceeded. Room comes\nback minute by minute, as what was spent becomes older than 60 minutes.',
    mend: 'What to do: wait, or make a first payment. With it, or seven days after the\naccount was made, the cap ends for good.',
  }),
  low_balance: (notice) => ({
    happened: `The credit balance of ${quotedName(notice.organizationName)} is low.`,
    figures: [
      ['Balance', usd(notice.amountMicrocents)],
      ['You are told below', usd(notice.limitMicrocents)],
      ['Seen', instant(notice)],
    ],
    means:
      'Calls are served until the balance is used up. Then they are refused with\n402 insufficient_balance, and running ones are cut.',
    mend: 'What to do: add credit. Once the balance is above this amount again, you are\ntold the next time it falls below.',
  }),
  auto_pay_off: (notice) => ({
    happened: `Auto-pay of ${quotedName(notice.organizationName)} is switched off: its payments were declined.`,
    figures: autoPayFigures(notice),
    means:
      'No further payment is tried. Calls are served until the balance is used up. Then\nthey are refused with 402 insufficient_balance, and running ones are cut.',
    mend: `What to do: ${payHere(notice)}\nIt saves the card that you pay with, and switches auto-pay on again.`,
  }),
  auto_pay_authentication: (notice) => ({
    happened: `A payment by auto-pay of ${quotedName(notice.organizationName)} was not made.\nThe bank asks the person who has the card to confirm it.`,
    figures: autoPayFigures(notice),
    means: 'Auto-pay tries again later, and the bank may ask again. Calls are served until the\nbalance is used up.',
    mend: `What to do: ${payHere(notice)}\nAuto-pay uses the card that you pay with from then on.`,
  }),
  instance_ending: (notice) => ({
    happened: `The money of ${quotedName(notice.organizationName)} for one of its instances runs out.`,
    figures: [
      ['Instance', notice.instanceId ?? '-'],
      ['Price of an hour', usd(notice.amountMicrocents)],
      ['Held for it', usd(notice.limitMicrocents)],
      ['Seen', instant(notice)],
    ],
    means:
      'The credit balance, or a spending limit that stops running work, leaves nothing for\nits next minutes. The instance is deleted when the amount that is held is used up.',
    mend: 'What to do: add credit, or have the limit raised (PUT /v1/billing/spending-limit,\nwith the key of an admin). Then the instance goes on.',
  }),
}

function autoPayFigures(notice: Notice): Told['figures'] {
  return [
    ['Amount', usd(notice.amountMicrocents)],
    ['Pays below', usd(notice.limitMicrocents)],
    ['Seen', instant(notice)],
  ]
}

/** The link stands alone in its line, however long it is: mail programs make it one that can be followed. */
function payHere({ link }: Notice): string {
  if (link === null)
    return 'make a payment with a card that works, and save it\n(POST /manage/v1/top-ups, "save_payment_method").'
  return `pay here, within 24 hours:\n${link}\nAfter that, begin a payment anew (POST /manage/v1/top-ups, "save_payment_method").`
}

function tellLimit(notice: Notice, name: string, period: string, renewal: string): Told {
  const { organizationName, enforcement } = notice
  return {
    happened: `${quotedName(organizationName)} has reached its ${name} spending limit.`,
    figures: [
      [`Spent in ${period}`, usd(notice.amountMicrocents)],
      [`${name === 'daily' ? 'Daily' : 'Monthly'} limit`, usd(notice.limitMicrocents)],
      ['Seen', instant(notice)],
    ],
    means: MEANINGS[enforcement](renewal),
    mend:
      enforcement === 'notify_only'
        ? 'What to do: nothing, if this was expected. To have calls refused at the limit,\nset "enforcement" of the spending limit to "block_launch" or "stop_running"\n(PUT /v1/billing/spending-limit, with the key of an admin).'
        : 'What to do: nothing, if this was expected. To go on at once, raise the limit\n(PUT /v1/billing/spending-limit, with the key of an admin).',
  }
}

const MEANINGS: Readonly<Record<Notice['enforcement'], (renewal: string) => string>> = {
  stop_running: (renewal) =>
    `Running answers are cut and calls that would pass the limit are refused with\n402 quota_exceeded. Instances are deleted when the money that is held for them is\nused up. There is room again ${renewal}.`,
  block_launch: (renewal) =>
    `Calls that would pass the limit are refused with 402 quota_exceeded; calls that\nwere running go on. There is room again ${renewal}.`,
  notify_only: () => 'The limit only notifies: nothing is refused, and spending goes on.',
}

function instant({ noticedAtMs }: Notice): string {
  return `${new Date(noticedAtMs).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

const CENTS_PER_DOLLAR = 100n

/** Dollars and cents, rounded down: never more than is left, never more than was spent. */
function usd(microcents: bigint): string {
  const perCent = MICROCENTS_PER_DOLLAR / CENTS_PER_DOLLAR
  const isNegative = microcents < 0n
  const cents = isNegative ? (-microcents + perCent - 1n) / perCent : microcents / perCent
  return `${isNegative ? '-' : ''}$${cents / CENTS_PER_DOLLAR}.${String(cents % CENTS_PER_DOLLAR).padStart(2, '0')}`
}
