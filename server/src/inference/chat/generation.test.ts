import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type Fault, type House, openHouse, openTill, type Till, withFaults } from '../../../test/moneyHouse.ts'
import { finish, reasoning, type ScriptedAnswer, scriptedAnswer, text, usage } from '../../../test/scriptedAnswer.ts'
import { Hold } from '../../billing/admission/share.ts'
import { ProviderFailure } from '../../providers/dialect/spec.ts'
import { type Budget, Generation } from './generation.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
/** A token costs a micro-cent, so that amounts are tokens. */
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 1_000_000n, cachedInputMicrocents: null }
const PROMPT = 10
const live = new AbortController().signal

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

interface Stage extends Budget {
  readonly money: Till
  /** The fault that the database has from now on. */
  fault: Fault
}

/** Credit on the account, a hold for the prompt and some output, and an answer of at most `outputTokens`. */
async function stage(more: { credit: bigint; held: bigint; outputTokens?: number; limited?: boolean }): Promise<Stage> {
  const organization = await house.organization(more.credit)
  const till = openTill(
    withFaults(house.database, () => budget.fault),
    0,
    new TurnedClock(NOON_MS),
  )
  const share = till.share(organization)
  const budget: Stage = {
    fault: 'none',
    money: till,
    share,
    hold: new Hold(share, more.held),
    price: PRICE,
    promptTokens: PROMPT,
    outputTokens: more.outputTokens ?? 100_000,
    outputIsLimited: more.limited ?? false,
    hiddenTokens: 0,
    contextTokens: 100_000,
  }
  await till.writer.renew(share, 0n)
  return budget
}

async function readAll(generation: Generation): Promise<string> {
  let whole = ''
  for (let piece = await generation.next(); piece !== null; piece = await generation.next()) whole += piece
  return whole
}

/** As many tokens, one an event. */
const tokens = (count: number) => Array.from({ length: count }, () => text('tok '))

async function play(answer: ScriptedAnswer, budget: Budget, signal = live) {
  const generation = new Generation(answer, budget, signal)
  const forwarded = await readAll(generation)
  return { generation, forwarded }
}

test('text is forwarded in its order, reasoning is not, and both are there to be counted', async () => {
  const budget = await stage({ credit: 1_000n, held: 500n })
  const answer = scriptedAnswer([
    reasoning('hm '),
    text('a'),
    reasoning('well'),
    text('b'),
    finish('length'),
    usage(7, 4),
  ])
  const { generation, forwarded } = await play(answer, budget)
  expect(forwarded).toBe('ab')
  expect([generation.text, generation.reasoning]).toEqual(['ab', 'hm well'])
  expect([generation.outcome, generation.finishReason]).toEqual(['completed', 'length'])
  expect(generation.usage).toEqual({ promptTokens: 7, cachedPromptTokens: 0, completionTokens: 4 })
  expect(await generation.next()).toBeNull()
  expect(answer.cancelled).toBe(false)
})

test('the last usage counts; an impossible one counts as none, and so does none', async () => {
  const cases = [
    {
      events: [text('a'), usage(7, 1), usage(7, 2)],
      reported: { promptTokens: 7, cachedPromptTokens: 0, completionTokens: 2 },
    },
    { events: [text('a'), usage(100_001, 1)], reported: null },
    { events: [text('a'), usage(1, 100_001)], reported: null },
    { events: [text('a')], reported: null },
  ]
  for (const { events, reported } of cases) {
    const { generation } = await play(scriptedAnswer(events), await stage({ credit: 1_000n, held: 500n }))
    expect(generation.usage).toEqual(reported)
  }
})

test('an answer without a finish reason or a token has stopped', async () => {
  const { generation } = await play(scriptedAnswer([usage(7, 0)]), await stage({ credit: 1_000n, held: 500n }))
  expect([generation.outcome, generation.finishReason, generation.hasTokens]).toEqual(['completed', 'stop', false])
})

test('the hold is extended before the tokens that need it are forwarded', async () => {
  const budget = await stage({ credit: 10_000n, held: 20n })
  const generation = new Generation(scriptedAnswer(tokens(600)), budget, live)
  let forwarded = 0
  for (let piece = await generation.next(); piece !== null; piece = await generation.next()) {
    forwarded += piece.length / 4
    expect(budget.hold.microcents).toBeGreaterThanOrEqual(BigInt(PROMPT + forwarded))
  }
  expect([forwarded, generation.outcome]).toEqual([600, 'completed'])
  // Ahead by no more than a step.
  expect(budget.hold.microcents).toBeLessThanOrEqual(BigInt(PROMPT + 600 + 256))
})

test('reasoning needs money too, before anything is forwarded', async () => {
  const budget = await stage({ credit: 100n, held: 20n })
  const thoughts = Array.from({ length: 200 }, () => reasoning('hmm '))
  const answer = scriptedAnswer([...thoughts, text('so')])
  const { generation, forwarded } = await play(answer, budget)
  expect([forwarded, generation.outcome]).toEqual(['', 'cut'])
  expect(generation.hasTokens).toBe(true)
})

test('where the money ends the answer is cut, the provider cancelled, and no more text goes out than was held for', async () => {
  const budget = await stage({ credit: 600n, held: 600n })
  const answer = scriptedAnswer(tokens(5_000))
  const { generation, forwarded } = await play(answer, budget)
  expect([generation.outcome, generation.finishReason, answer.cancelled]).toEqual(['cut', 'length', true])
  expect(forwarded.length / 4).toBe(590)
  expect(forwarded).toBe(generation.text)
  expect(budget.hold.microcents).toBe(600n)
  expect(await generation.next()).toBeNull()
})

for (const [language, piece, tokensEach] of [
  ['Chinese', '人工智能正在改变世界', 8],
  ['Russian', 'Искусственный интеллект меняет мир. ', 9],
  ['English', 'Artificial intelligence is changing the world. ', 8],
] as const) {
  test(`pieces of many tokens are held for as well as single ones (${language})`, async () => {
    const budget = await stage({ credit: 2_000n, held: 2_000n })
    const answer = scriptedAnswer(Array.from({ length: 5_000 }, () => text(piece)))
    const { generation, forwarded } = await play(answer, budget)
    expect(generation.outcome).toBe('cut')
    const spent = PROMPT + (forwarded.length / piece.length) * tokensEach
    // Counts are estimates; past the hold they may be by a step at most.
    expect(spent).toBeLessThanOrEqual(2_000 + 256)
    expect(spent).toBeGreaterThan(800)
  })
}

test.each([
  ['digits', '1234567890'.repeat(10), 10],
  ['signs', '{}[]();:,.'.repeat(10), 10],
  ['digits, of which a token has at most three,', '1234567890123456', 100],
  ['four digits', '2030', 200],
])(
  'each of the %s of a piece of many tokens is held for as a token, before it is forwarded',
  async (_, piece, count) => {
    const budget = await stage({ credit: 10_000n, held: BigInt(PROMPT) })
    const generation = new Generation(scriptedAnswer(Array.from({ length: count }, () => text(piece))), budget, live)
    let forwarded = 0
    for (let part = await generation.next(); part !== null; part = await generation.next()) {
      forwarded += part.length
      expect(Number(budget.hold.microcents) - PROMPT).toBeGreaterThanOrEqual(forwarded)
    }
    expect(forwarded).toBe(count * piece.length)
  },
)

test('a call that may come to what it holds, and not to more, is never cut', async () => {
  const budget = await stage({ credit: 310n, held: 310n, outputTokens: 300, limited: true })
  const { generation, forwarded } = await play(scriptedAnswer([...tokens(300), usage(10, 300)]), budget)
  expect([generation.outcome, forwarded.length / 4]).toEqual(['completed', 300])
  expect(budget.hold.microcents).toBe(310n)
})

test('a hold is not extended past what the call can come to', async () => {
  const budget = await stage({ credit: 310n, held: 110n, outputTokens: 300, limited: true })
  const { generation, forwarded } = await play(scriptedAnswer(tokens(300)), budget)
  expect([generation.outcome, forwarded.length / 4]).toEqual(['completed', 300])
  expect(budget.hold.microcents).toBe(310n)
})

test('when the database cannot be asked for more, nothing is forwarded on credit', async () => {
  const budget = await stage({ credit: 100_000n, held: 100n })
  budget.share.grantedMicrocents = 100n
  budget.fault = 'before'
  const { generation, forwarded } = await play(scriptedAnswer(tokens(500)), budget)
  expect([generation.outcome, forwarded.length / 4]).toEqual(['interrupted', 90])
  expect(generation.failure?.kind).toBe('unavailable')
})

test('text that is paid for goes out before anyone waits for more money', async () => {
  const budget = await stage({ credit: 10_000n, held: 12n })
  budget.share.grantedMicrocents = 12n
  const generation = new Generation(scriptedAnswer([text('one '), text('two '), text('more')]), budget, live)
  expect(await generation.next()).toBe('one ')
  expect(await generation.next()).toBe('two ')
  expect(budget.hold.microcents).toBe(12n)
  expect(await generation.next()).toBe('more')
  expect(budget.hold.microcents).toBeGreaterThan(12n)
})

test('a provider that breaks off leaves what came before to be charged, and says why', async () => {
  const failure = new ProviderFailure('timeout', 'silent')
  const budget = await stage({ credit: 1_000n, held: 500n })
  const { generation, forwarded } = await play(scriptedAnswer([text('a'), text('b'), failure]), budget)
  expect([forwarded, generation.outcome, generation.failure]).toEqual(['ab', 'interrupted', failure])
  const bug = await play(scriptedAnswer([new TypeError('x')]), await stage({ credit: 1_000n, held: 500n }))
  expect(bug.generation.failure?.kind).toBe('faulty')
  expect(bug.generation.hasTokens).toBe(false)
})

test('a client that hangs up cancels the provider, whether it was waiting for it or not', async () => {
  const gone = new AbortController()
  const waiting = scriptedAnswer([
    text('a'),
    () => gone.abort(new Error('gone')),
    new DOMException('The operation was aborted', 'AbortError'),
  ])
  const heard = await play(waiting, await stage({ credit: 1_000n, held: 500n }), gone.signal)
  expect([heard.forwarded, heard.generation.outcome]).toEqual(['a', 'cancelled'])

  const between = scriptedAnswer([text('a'), text('b')])
  const generation = new Generation(between, await stage({ credit: 1_000n, held: 500n }), live)
  expect(await generation.next()).toBe('a')
  await generation.stop()
  await generation.stop()
  expect([generation.outcome, generation.text, between.cancelled]).toEqual(['cancelled', 'a', true])
  expect(await generation.next()).toBeNull()
})

test('what lay in the socket when the client hung up is kept to be charged, also while the whole answer is waited for', async () => {
  const gone = new AbortController()
  const answer = scriptedAnswer([text('read '), () => gone.abort(new Error('gone')), new Error('gone')])
  const events = answer[Symbol.asyncIterator]()
  const left = () => Promise.resolve([text('left '), reasoning('behind'), usage(10, 4)])
  const withLeft = { [Symbol.asyncIterator]: () => ({ ...events, left }) }
  const generation = new Generation(withLeft, await stage({ credit: 1_000n, held: 500n }), gone.signal)
  expect(await readAll(generation)).toBe('read ')
  expect([generation.outcome, generation.text, generation.reasoning]).toEqual(['cancelled', 'read left ', 'behind'])
  expect(generation.usage).toMatchObject({ promptTokens: 10, completionTokens: 4 })
})

test('a client that hangs up while its first piece waits for money has cancelled the answer, whatever money there is', async () => {
  for (const fault of ['none', 'before'] as const) {
    const gone = new AbortController()
    const budget = await stage({ credit: 20n, held: 20n })
    budget.fault = fault
    const generation = new Generation(scriptedAnswer([text('x'.repeat(4_000))]), budget, gone.signal)
    const piece = generation.next()
    gone.abort(new Error('gone'))
    expect(await piece).toBeNull()
    expect([generation.outcome, generation.insufficientGate, generation.failure]).toEqual(['cancelled', null, null])
  }
})

test('stopping what has ended changes nothing', async () => {
  const { generation } = await play(scriptedAnswer([text('a')]), await stage({ credit: 1_000n, held: 500n }))
  await generation.stop()
  expect(generation.outcome).toBe('completed')
})

test('a model whose output costs nothing needs no watching', async () => {
  const budget = { ...(await stage({ credit: 10n, held: 10n })), price: { ...PRICE, outputMicrocents: 0n } }
  const { generation } = await play(scriptedAnswer(tokens(2_000)), budget)
  expect(generation.outcome).toBe('completed')
})

test('an answer that costs nothing is not cut by a limit that is used up, nor one that a plan covers', async () => {
  const free = { ...PRICE, inputMicrocents: 0n, outputMicrocents: 0n }
  for (const price of [free, PRICE]) {
    const budget = await stage({ credit: 10n, held: 0n })
    budget.share.exhaustedLimit = 'monthly'
    const { generation } = await play(scriptedAnswer(tokens(600)), {
      ...budget,
      price,
      hold: Hold.ofNothing(budget.share),
    })
    expect([generation.outcome, generation.insufficientGate]).toEqual(['completed', null])
  }
})

test('a hold that is shrunk keeps what has come and one step, and the rest is asked for again', async () => {
  const whole = BigInt(PROMPT + 1_000)
  const budget = await stage({ credit: whole, held: whole, outputTokens: 1_000, limited: true })
  const generation = new Generation(scriptedAnswer(tokens(600)), budget, live)
  for (let read = 0; read < 100; read += 1) await generation.next()
  expect(budget.hold.microcents).toBe(whole)
  expect(budget.hold.shrink()).toBe(whole - BigInt(PROMPT + 100 + 256))
  expect(budget.hold.shrink()).toBe(0n)
  for (let read = 100; read < 600; read += 1) {
    expect(await generation.next()).toBe('tok ')
    expect(budget.hold.microcents).toBeGreaterThanOrEqual(BigInt(PROMPT + read + 1))
  }
  expect(budget.hold.microcents).toBeLessThan(whole)
  expect([await generation.next(), generation.outcome]).toEqual([null, 'completed'])
})

test('a hold that is shrunk cuts the answer after one step where nothing comes back', async () => {
  for (const [outputTokens, limited] of [
    [1_000, true],
    [100_000, false],
  ] as const) {
    const budget = await stage({ credit: 1_010n, held: 1_010n, outputTokens, limited })
    const generation = new Generation(scriptedAnswer(tokens(600)), budget, live)
    let forwarded = 0
    for (; forwarded < 100; forwarded += 1) await generation.next()
    budget.hold.shrink()
    // Another process has it now.
    await budget.money.writer.renew(budget.share, 0n, { kind: 'give_back' })
    await house.database.query('update accounts set balance_microcents = 366 where organization_id = $1::uuid', [
      budget.share.organizationId,
    ])
    while ((await generation.next()) !== null) forwarded += 1
    expect([forwarded, generation.outcome, generation.insufficientGate]).toEqual([356, 'cut', 'balance'])
    expect(budget.hold.microcents).toBe(366n)
  }
})

test('a hold is not shrunk below what an event needs that waits for its money', async () => {
  const budget = await stage({ credit: 1_000n, held: 400n })
  const large = 'x'.repeat(4 * 390)
  const generation = new Generation(scriptedAnswer([text('tok '), text(large)]), budget, live)
  expect(await generation.next()).toBe('tok ')
  const waiting = generation.next()
  while (budget.money.writer.waitingRenewals === 0) await Promise.resolve()
  expect(budget.hold.shrink()).toBe(0n)
  expect(await waiting).toBe(large)
  expect(budget.hold.microcents).toBe(BigInt(PROMPT + 391 + 256))
})
