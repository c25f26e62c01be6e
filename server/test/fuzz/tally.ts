import type { Counts, Round } from './fuzz.ts'

/** Of each operation's cases that fit the description, so many must be answered 2xx, or the others hide how it works. */
const SHARE_LEAST = 0.3

/** Several rounds together. */
export interface Tally {
  add(round: Round): void
  requests(): number
  findings(): number
  /** Operations whose share of 2xx is too small, or that no such case was sent to. */
  starved(): string[]
  /** Answers of 500 and above, whatever the checks thought of them. */
  serverErrors(): number
  /** A line for each operation: requests, share of 2xx, statuses. */
  lines(): string[]
}

/** An empty one. */
export function createTally(): Tally {
  const all = new Map<string, Counts>()
  let findings = 0
  const sum = (pick: (counts: Counts) => number) => [...all.values()].reduce((total, counts) => total + pick(counts), 0)
  const share = ({ positive, positive2xx }: Counts) => (positive === 0 ? 0 : positive2xx / positive)
  return {
    add(round) {
      findings += round.findings
      for (const [operation, counts] of Object.entries(round.counts)) {
        const known = all.get(operation) ?? { requests: 0, positive: 0, positive2xx: 0, streams: 0, statuses: {} }
        for (const name of ['requests', 'positive', 'positive2xx', 'streams'] as const) known[name] += counts[name]
        for (const [status, count] of Object.entries(counts.statuses)) {
          known.statuses[status] = (known.statuses[status] ?? 0) + count
        }
        all.set(operation, known)
      }
    },
    requests: () => sum(({ requests }) => requests),
    findings: () => findings,
    starved: () => [...all].filter(([, counts]) => share(counts) < SHARE_LEAST).map(([operation]) => operation),
    serverErrors: () =>
      sum(({ statuses }) =>
        Object.entries(statuses).reduce((n, [status, count]) => n + (status >= '5' ? count : 0), 0),
      ),
    lines: () =>
      [...all].sort().map(([operation, counts]) => {
        const { requests, positive, positive2xx, streams, statuses } = counts
        const percent = `${(100 * share(counts)).toFixed(0)} % 2xx`
        const each = Object.entries(statuses).map(([status, count]) => `${status}: ${count}`)
        const streamed = streams === 0 ? '' : `; ${streams} streams`
        return `${operation}: ${requests} requests; ${positive2xx} of ${positive} that fit, ${percent}; ${each.join(', ')}${streamed}`
      }),
  }
}
