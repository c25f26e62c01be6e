import { type Invocation, UsageFailure } from './command.ts'

/** Returns the whole US cents of the option `--cents`; null where it was not given. */
export function centsOption(invocation: Invocation): number | null {
  const typed = invocation.text('cents')
  if (typed === undefined) return null
  if (/^[1-9][0-9]{0,11}$/.test(typed)) return Number(typed)
  throw new UsageFailure(`--cents "${typed}" is not an amount: use whole cents above 0, such as 25`)
}
