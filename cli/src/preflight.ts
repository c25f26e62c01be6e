import { callApi } from './api.ts'
import type { CliCommand } from './command.ts'

interface Preflight {
  readonly model: string
  readonly verdict: 'ok' | 'warn' | 'block'
  readonly message: string
}

const BLOCKED = 1

/** `tollgate preflight MODEL` */
export const preflightCommand: CliCommand = {
  words: ['preflight'],
  summary:
    'Say whether a call of a model would be accepted now, and how it would be paid for; ends with 1 when it would not',
  argument: { name: 'MODEL', summary: 'the model' },
  options: [],
  examples: ['tollgate preflight svc/sandbox && tollgate chat "Hello" --model svc/sandbox'],
  run: async (args, system) => {
    const path = `/v1/inference/preflight?${new URLSearchParams({ model: args.argument })}`
    const preflight = (await callApi(args, system, { method: 'GET', path })) as Preflight
    const { verdict, message } = preflight
    const exitCode = verdict === 'block' ? BLOCKED : 0
    return { json: preflight, text: `${verdict}: ${message}\n`, exitCode }
  },
}
