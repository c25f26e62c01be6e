/** Schemathesis with all its checks over the gateway's own description: as many rounds as fit into the time given. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { type Fuzzer, installSchemathesis, openFuzzer } from './fuzz.ts'
import { createTally } from './tally.ts'

const EXAMPLES = 40
/** Beyond the time for rounds: installing, the gateway's start, the last round, and the lies. */
const SLACK_MS = 180_000

const installed = await installSchemathesis()
if ('problem' in installed) console.warn(`skipped, schemathesis can't be installed: ${installed.problem}`)
const withSchemathesis = test.skipIf('problem' in installed)

let fuzzer: Fuzzer
beforeAll(async () => {
  if ('bin' in installed) fuzzer = await openFuzzer(installed.bin)
}, SLACK_MS)
afterAll(() => fuzzer?.close())

withSchemathesis(
  'every answer to generated requests is as described, and none is a 5xx',
  async () => {
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 1_000 })
    const tally = createTally()
    let rounds = 0
    do {
      const seed = firstSeed + rounds
      const round = await fuzzer.round({ seed, examples: EXAMPLES })
      expect({ seed, findings: round.findings, report: round.report }).toEqual({ seed, findings: 0, report: '' })
      tally.add(round)
      rounds += 1
    } while (goesOn())
    console.log(`seeds: ${rounds} of schemathesis, from ${firstSeed}; ${tally.requests()} requests`)
    for (const line of tally.lines()) console.log(line)
    expect({ starved: tally.starved(), serverErrors: tally.serverErrors() }).toEqual({ starved: [], serverErrors: 0 })
  },
  longSeconds() * 1_000 + SLACK_MS,
)

withSchemathesis(
  'what is not as described is found: a status, a field of an answer, of an event, a bound of a request',
  async () => {
    const { findings, report } = await fuzzer.round({
      seed: 1,
      examples: EXAMPLES,
      alter({ paths, components }) {
        const responses: Record<string, unknown> | undefined = paths['/models/{id}']?.['get']?.responses
        delete responses?.['404']
        for (const [name, field] of [
          ['ChatCompletionChunk', 'created'],
          ['Balance', 'balance_cents'],
          ['CryptoDepositList', 'min_deposit_cents'],
        ] as const) {
          const schema = components.schemas[name]
          if (schema === undefined) throw new Error(`there is no schema ${name}`)
          schema['properties'][field] = { type: 'string' }
        }
        const limit = components.schemas['SpendingLimitRequest']
        if (limit === undefined) throw new Error('there is no schema SpendingLimitRequest')
        limit['properties'].monthly_limit_dollars.minimum = 1_000
      },
    })
    // Two of the five are of one kind.
    expect(findings).toBe(4)
    expect(report).toContain('Undocumented status code')
    expect(report).toContain('SSE event violates schema')
    expect(report).toContain('Response violates schema')
    for (const property of ['balance_cents', 'min_deposit_cents'])
      expect(report).toMatch(new RegExp(`Schema at \\S*/properties/${property}:`))
    expect(report).toContain('Schema-violating request accepted')
  },
  SLACK_MS,
)
