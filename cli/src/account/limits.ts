import { facts } from '../../../server/src/lib/table.ts'
import { callApi, ServerRefusal } from '../api.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { UsageMistake } from '../failure.ts'
import type { System } from '../system.ts'
import { readCents } from '../values.ts'
import { dollars } from './balance.ts'

const LIMIT = '/v1/billing/spending-limit'

/** The effects of a limit that is reached, and their meaning. */
const ENFORCEMENTS = {
  stop_running: 'new calls are refused, and running chats and rented instances end',
  block_launch: 'new calls are refused; running ones go on',
  notify_only: 'nothing is refused; the organization is only told',
} as const

const MEANINGS = Object.entries(ENFORCEMENTS)
  .map(([word, meaning]) => `${word}: ${meaning}`)
  .join('; ')

interface SpendingLimit {
  readonly monthly_limit_cents: number
  readonly daily_limit_cents: number | null
  readonly current_month_spend_cents: number
  readonly current_day_spend_cents: number
  readonly percent_used: number
  readonly enforcement: string
}

/** `tollgate limits` */
export const showLimitsCommand: CliCommand = {
  words: ['limits'],
  summary: "Show the organization's spending limits and how much of them is spent",
  options: [],
  examples: ['tollgate limits'],
  run: async (args, system) => {
    const limit = await readLimit(args, system)
    const none = 'No spending limit is set. An admin may set one: "tollgate limits set --monthly USD".\n'
    return { json: limit, text: limit === null ? none : textOf(limit) }
  },
}

/** Returns null where none is set. */
async function readLimit(args: CommandLine, system: System): Promise<SpendingLimit | null> {
  try {
    return (await callApi(args, system, { method: 'GET', path: LIMIT })) as SpendingLimit
  } catch (error) {
    if (error instanceof ServerRefusal && error.code === 'not_found') return null
    throw error
  }
}

/** `tollgate limits set --monthly 100` */
export const setLimitsCommand: CliCommand = {
  words: ['limits', 'set'],
  summary: "Set the organization's spending limits; needs an admin's key",
  options: [
    { name: 'monthly', value: 'USD', summary: 'the limit of a UTC month', isRequired: true },
    { name: 'daily', value: 'USD', summary: 'the limit of a UTC day; 0 clears it; left out: unchanged' },
    {
      name: 'enforcement',
      value: 'WORD',
      summary: `the effect of a limit that is reached; ${MEANINGS}; left out: unchanged, block_launch at first`,
      choices: Object.keys(ENFORCEMENTS),
    },
  ],
  examples: ['tollgate limits set --monthly 100 --daily 10 --enforcement block_launch'],
  run: async (args, system) => {
    const daily = args.text('daily')
    const enforcement = args.text('enforcement')
    const body = {
      monthly_limit_dollars: readCents(args.required('monthly'), '--monthly') / 100,
      ...(daily !== undefined && {
        daily_limit_dollars: /^0+(\.0*)?$/.test(daily) ? 0 : readCents(daily, '--daily') / 100,
      }),
      ...(enforcement !== undefined && { enforcement }),
    }
    if (body.monthly_limit_dollars < 1) throw new UsageMistake('--monthly: must be at least 1 dollar')
    const limit = (await putLimit(args, system, body)) as SpendingLimit
    return { json: limit, text: textOf(limit) }
  },
}

function putLimit(args: CommandLine, system: System, body: object): Promise<unknown> {
  return callApi(args, system, { method: 'PUT', path: LIMIT, body })
}

function textOf(limit: SpendingLimit): string {
  const { daily_limit_cents: daily, enforcement, percent_used: percent } = limit
  const month = `${dollars(limit.current_month_spend_cents)} of ${dollars(limit.monthly_limit_cents)} spent, ${percent}%`
  const today = dollars(limit.current_day_spend_cents)
  return facts([
    ['This month', month],
    ['Today', daily === null ? `${today} spent, no limit` : `${today} of ${dollars(daily)} spent`],
    ['At the limit', explained(enforcement)],
  ])
}

function explained(enforcement: string): string {
  const meaning = Object.entries(ENFORCEMENTS).find(([word]) => word === enforcement)?.[1]
  return meaning === undefined ? enforcement : `${enforcement}: ${meaning}`
}
