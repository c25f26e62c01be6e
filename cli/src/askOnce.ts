import { SECOND_MS } from '../../server/src/lib/time.ts'
import { type ApiAnswer, type ApiCall, askApi, ServerRefusal, ServerUnreached } from './api.ts'
import type { CliCommand, CliOption, CommandLine } from './command.ts'
import { CliFailure, Interruption, UsageMistake } from './failure.ts'
import { idempotencyKey } from './idempotencyKey.ts'
import { pauseUnlessLeft } from './pause.ts'
import { commandToType } from './shellWords.ts'
import type { System } from './system.ts'

/** Asks the server for something that costs money, so that it is made and charged once, however often it is asked for. */

/** Before a request whose answer was lost is sent again. */
const PAUSE_MS = SECOND_MS

/** As the server takes it. */
const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** The option of commands that pay; `gets` says what the same command with the same key does. */
export function keyOption(gets: string): CliOption {
  const summary = `the same command with the same key ${gets}; new each time when left out`
  return { name: 'idempotency-key', value: 'KEY', summary }
}

/** Returns the key of the option, or a new one. */
export function chosenKey(args: CommandLine, system: System): string {
  const key = args.text('idempotency-key') ?? idempotencyKey(system)
  if (!IDEMPOTENCY_KEY.test(key)) throw new UsageMistake('--idempotency-key: must be 1 to 255 characters, no spaces')
  return key
}

/** Returns the command that asks for the same with the same key, to be pasted. `fixed` are options that it must have, whatever was typed. */
export function sameCommand(
  { words, options }: CliCommand,
  args: CommandLine,
  key: string,
  fixed: Readonly<Record<string, string>> = {},
): string {
  const given = [...options, { name: 'server', value: 'URL' }, { name: 'json', value: null }].flatMap(
    ({ name, value }) => {
      if (name === 'idempotency-key') return []
      if (value === null) return args.flag(name) ? [`--${name}`] : []
      const typed = fixed[name] ?? args.text(name)
      return typed === undefined ? [] : [`--${name}`, typed]
    },
  )
  const all = [...given, '--idempotency-key', key]
  // Only behind `--` may an argument begin with a dash.
  const isDashed = args.argument.startsWith('-')
  return commandToType(isDashed ? [...words, ...all, '--', args.argument] : [...words, args.argument, ...all])
}

export interface OnceCall extends ApiCall {
  readonly idempotencyKey: string
  /** Said when Ctrl-C ends the waiting, such as "left the images, which the server may go on to make". */
  readonly left: string
  /** Says how the result is had without a second charge, if it was made: the command of {@link sameCommand}. */
  readonly advice: string
  /** True: the server answers at once, so a lost answer is asked for a second time. */
  readonly isShort?: true
}

/** Returns the answer. Where the result may have been made without one, the failure ends with the call's advice. */
export async function askOnce(args: CommandLine, system: System, once: OnceCall): Promise<ApiAnswer> {
  const { idempotencyKey: key, left, advice, isShort, ...call } = once
  const leaving = new AbortController()
  const forget = system.onInterrupt(() => leaving.abort())
  const ask = () => askApi(args, system, { ...call, headers: { 'Idempotency-Key': key } }, leaving.signal)
  let isLost = false
  try {
    return await ask().catch(async (error: unknown) => {
      isLost = mayBeMade(error)
      if (isShort !== true || leaving.signal.aborted || !isUnheard(error)) throw error
      await pauseUnlessLeft(system.clock, PAUSE_MS, leaving.signal)
      return await ask()
    })
  } catch (error) {
    if (leaving.signal.aborted) throw new Interruption(`${left}: ${advice}`)
    if (error instanceof CliFailure && (isLost || mayBeMade(error)))
      throw new CliFailure(withAdvice(error.message, advice), error)
    throw error
  } finally {
    forget()
  }
}

/** Returns whether the server may have made it all the same: it could not say how the call ended, or another request with the key is under way. */
function mayBeMade(error: unknown): boolean {
  if (isUnheard(error)) return true
  return error instanceof ServerRefusal && (error.status >= 500 || error.code === 'idempotency_conflict')
}

/** Returns whether the request was sent, and no answer of the server itself came: none at all, or one of something on the way. */
function isUnheard(error: unknown): boolean {
  if (error instanceof ServerUnreached) return !error.isUnsent
  return error instanceof ServerRefusal && error.code === 'not_understood'
}

/** The server's own words are sentences. */
function withAdvice(words: string, advice: string): string {
  if (!words.endsWith('.')) return `${words}; ${advice}`
  return `${words} ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`
}
