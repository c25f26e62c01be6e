/** Reads a file of addresses: one a line; empty lines, and what follows a `#`, are passed over. */

/** Mistakes that are told of at once. */
const PROBLEMS_MOST = 20

/** Returns what is wrong with an address, as a predicate that does not quote it; null where nothing is. */
export type FaultOf = (address: string) => string | null

/** An address, and the line of the file that it is in, from 1. */
export interface PoolLine {
  readonly line: number
  readonly address: string
}

/** Reads the addresses of a file. The problems name lines and quote none: one may hold a private key by mistake. */
export function readPoolFile(
  text: string,
  faultOf: FaultOf,
): { readonly lines: readonly PoolLine[]; readonly problems: readonly string[] } {
  const lines: PoolLine[] = []
  const problems: string[] = []
  const firsts = new Map<string, number>()
  for (const [index, whole] of text.split('\n').entries()) {
    const line = index + 1
    const address = whole.replace(/#.*/, '').trim()
    if (address === '') continue
    const first = firsts.get(address)
    const fault = first === undefined ? faultOf(address) : `has the same address as line ${first}: remove one of them`
    firsts.set(address, first ?? line)
    if (fault === null) lines.push({ line, address })
    else problems.push(`line ${line} ${fault}`)
  }
  if (lines.length === 0 && problems.length === 0) problems.push('the file has no address: write one a line')
  return { lines, problems: firstProblems(problems) }
}

/** Returns as many problems as a person reads, and how many more there are. */
export function firstProblems(problems: readonly string[]): string[] {
  const more = problems.length - PROBLEMS_MOST
  return more > 0 ? [...problems.slice(0, PROBLEMS_MOST), `${more} more lines are wrong`] : [...problems]
}
