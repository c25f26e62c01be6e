import { expect, test } from 'bun:test'
import { anyPrice } from '../../test/prices.ts'
import { fc } from '../../test/properties.ts'
import { type LoadedSettings, loadSettings } from './load.ts'
import type { Modality } from './model.ts'
import { centsRoundedHalfUp, PRICE_MAX_MICROCENTS, type PriceTable } from './price.ts'
import { describeProblem } from './settings.ts'
import { pricingToWire } from './wirePricing.ts'

/** A file with one model that is listed only; its pricing stands in line 6. */
function fileWith(pricing: string, modality: Modality = 'chat', more = ''): string {
  return `models:
  - id: svc/m
    modality: ${modality}
    status: coming_soon
    context_length: 4096
    pricing: ${pricing}
${more}`
}

function load(text: string): LoadedSettings {
  return loadSettings(text, { environment: {}, directory: '/etc/tollgate', fileExists: () => true })
}

function problemsOf(text: string): string {
  const loaded = load(text)
  return loaded.ok ? '' : loaded.problems.map((problem) => describeProblem('tollgate.yaml', problem)).join('\n')
}

function priceOf(text: string, tier: 'serverless' | 'economy' = 'serverless'): PriceTable | undefined {
  const loaded = load(text)
  if (!loaded.ok) throw new Error(problemsOf(text))
  return loaded.settings.models?.[0]?.[tier]?.price
}

const RATE = 'input_per_1m_tokens_cents: 2, output_per_1m_tokens_cents: 4'
const CHEAP = 'input_per_1m_tokens_cents: 1, output_per_1m_tokens_microcents: 2500000'
const DAY = '{ start: "08:00", end: "20:00" }'
const timed = (windows: string, peak = RATE, offPeak = CHEAP) =>
  `{ peak: { ${peak} }, off_peak: { ${offPeak} }, peak_windows_utc: [${windows}] }`

test('a price by time of day is read to the micro-cent, with its windows in the order of the day', () => {
  const cached = `${RATE}, cached_input_per_1m_tokens_microcents: 3`
  expect(priceOf(fileWith(timed(`{ start: "22:30", end: "00:00" }, ${DAY}`, cached)))).toEqual({
    kind: 'tokens_by_time',
    peak: { inputMicrocents: 2_000_000n, outputMicrocents: 4_000_000n, cachedInputMicrocents: 3n },
    offPeak: { inputMicrocents: 1_000_000n, outputMicrocents: 2_500_000n, cachedInputMicrocents: null },
    peakWindows: [
      { startMinute: 480, endMinute: 1_200 },
      { startMinute: 1_350, endMinute: 1_440 },
    ],
  })
})

test('times need no quotes, may wrap midnight, and may cover the whole day', () => {
  const windowsOf = (windows: string) => {
    const price = priceOf(fileWith(timed(windows)))
    return price?.kind === 'tokens_by_time' ? price.peakWindows : null
  }
  expect(windowsOf('{ start: 08:00, end: 20:00 }')).toEqual([{ startMinute: 480, endMinute: 1_200 }])
  expect(windowsOf('{ start: "22:00", end: "06:00" }')).toEqual([{ startMinute: 1_320, endMinute: 360 }])
  expect(windowsOf('{ start: "00:00", end: "24:00" }')).toEqual([{ startMinute: 0, endMinute: 1_440 }])
  expect(windowsOf(`${DAY}, { start: "20:00", end: "08:00" }`)).toHaveLength(2)
})

test('the economy tier has rates and windows of its own', () => {
  const text = fileWith(timed(DAY), 'chat', `    economy: { pricing: ${timed('{ start: "01:00", end: "02:00" }')} }\n`)
  expect(priceOf(text, 'economy')).toMatchObject({ peakWindows: [{ startMinute: 60, endMinute: 120 }] })
  expect(priceOf(text)).toMatchObject({ peakWindows: [{ startMinute: 480, endMinute: 1_200 }] })
})

test('a discovered model may be sold by time of day too', () => {
  const loaded = load(`discovered_price: ${timed(DAY)}`)
  expect(loaded.ok && loaded.settings.fixed.discoveredPrice.kind).toBe('tokens_by_time')
})

test('images and videos are priced by their own units, and need no context length', () => {
  const listed = (modality: Modality, pricing: string) =>
    priceOf(fileWith(pricing, modality).replace('    context_length: 4096\n', ''))
  expect(listed('image', '{ per_image_cents: 4, per_image_microcents: 3500000 }')).toEqual({
    kind: 'image',
    perImageMicrocents: 3_500_000n,
  })
  expect(listed('image', '{ per_image_cents: 4 }')).toEqual({ kind: 'image', perImageMicrocents: 4_000_000n })
  expect(listed('image', '{ per_mpxl_microcents: 7 }')).toEqual({ kind: 'megapixel', perMegapixelMicrocents: 7n })
  expect(listed('video', '{ per_video_second_cents: 5, per_video_microcents: 9 }')).toEqual({
    kind: 'video_second',
    perSecondMicrocents: 5_000_000n,
    perVideoMicrocents: 9n,
  })
})

const MODALITY_OF = { image: 'image', megapixel: 'image', video_second: 'video', tokens: 'chat' } as const

test('a price as the listing shows it is read back as the same price', () => {
  fc.assert(
    fc.property(anyPrice, (price) => {
      const modality = price.kind === 'tokens_by_time' ? 'chat' : MODALITY_OF[price.kind]
      const { period: _, ...shown } = pricingToWire(price, modality, 0)
      if (price.kind === 'tokens') {
        // Its listing has cents alone; the file takes the exact form beside them.
        const exact = {
          input_per_1m_tokens_microcents: Number(price.inputMicrocents),
          output_per_1m_tokens_microcents: Number(price.outputMicrocents),
        }
        expect(priceOf(fileWith(JSON.stringify({ ...shown, ...exact })))).toEqual(price)
        return
      }
      for (const key of Object.keys(shown) as (keyof typeof shown)[]) {
        if (price.kind === 'tokens_by_time' && key.includes('_per_1m_')) delete shown[key]
      }
      expect(priceOf(fileWith(JSON.stringify(shown), modality))).toEqual(price)
    }),
  )
})

test('cents beside micro-cents are taken exactly where they are the rounded ones', () => {
  const amount = fc.bigInt({ min: 0n, max: PRICE_MAX_MICROCENTS })
  fc.assert(
    fc.property(amount, fc.constantFrom(-1n, 0n, 1n), (exact, off) => {
      const cents = centsRoundedHalfUp(exact) + off
      if (cents < 0n || cents * 1_000_000n > PRICE_MAX_MICROCENTS) return
      const both = `{ input_per_1m_tokens_cents: ${cents}, input_per_1m_tokens_microcents: ${exact}, output_per_1m_tokens_cents: 0 }`
      if (off === 0n) expect(priceOf(fileWith(both))).toMatchObject({ inputMicrocents: exact })
      else expect(problemsOf(fileWith(both))).toMatch(/input_per_1m_tokens_cents: disagrees with/)
    }),
  )
})

/** Each: what the operator wrote, and where and what the answer must say. */
const REFUSED: readonly (readonly [what: string, text: string, expected: RegExp])[] = [
  ['per image on a chat model', fileWith('{ per_image_cents: 1 }'), /:6:16: .*per_image_cents: is for an image model/],
  [
    'per megapixel on a chat model',
    fileWith('{ per_mpxl_microcents: 1 }'),
    /per_mpxl_microcents: is for an image model/,
  ],
  [
    'per second on a chat model',
    fileWith('{ per_video_second_cents: 1 }'),
    /is for a video model, and this is not one: remove/,
  ],
  ['per image on a video model', fileWith('{ per_image_cents: 1 }', 'video'), /per_image_cents: is for an image model/],
  ['per second on an image model', fileWith('{ per_video_second_cents: 1 }', 'image'), /is for a video model/],
  [
    'tokens on an image model',
    fileWith(`{ per_image_cents: 1, ${RATE} }`, 'image'),
    /is for a model that is charged by tokens/,
  ],
  [
    'windows on a video model',
    fileWith(timed(DAY), 'video'),
    /peak_windows_utc: is for a model that is charged by tokens/,
  ],
  [
    'per image and per megapixel',
    fileWith('{ per_image_microcents: 1, per_mpxl_microcents: 1 }', 'image'),
    /:6:41: .*per_mpxl_microcents: can't be combined with a price per image: remove one of them/,
  ],
  [
    'an image model without a price',
    fileWith('{ currency: usd }', 'image'),
    /has no billable price: set per_image_cents/,
  ],
  [
    'a video model with a figure for display only',
    fileWith('{ per_video_microcents: 1 }', 'video'),
    /has no billable price: set per_video_second_cents .*\(per_video_microcents is for display only\)/,
  ],
  [
    'cents per image that disagree',
    fileWith('{ per_image_cents: 3, per_image_microcents: 3500000 }', 'image'),
    /per_image_cents: disagrees with per_image_microcents, which is 4 cents/,
  ],
  ['a negative price of a second', fileWith('{ per_video_second_cents: -1 }', 'video'), /must not be negative/],
  ['a second beyond reason', fileWith('{ per_video_second_cents: 100001 }', 'video'), /must be at most 100000/],
  ['an output price of embeddings', fileWith(`{ ${RATE} }`, 'embedding'), /an embedding model has no output tokens/],
  [
    'windows alone',
    fileWith(`{ peak_windows_utc: [${DAY}] }`),
    /:6:14: .*pricing: has no 'peak'(.|\n)*pricing: has no 'off_peak'/,
  ],
  [
    'windows without the off-peak side',
    fileWith(`{ peak: { ${RATE} }, peak_windows_utc: [${DAY}] }`),
    /pricing: has no 'off_peak'/,
  ],
  [
    'windows without the peak side',
    fileWith(`{ off_peak: { ${RATE} }, peak_windows_utc: [${DAY}] }`),
    /pricing: has no 'peak'/,
  ],
  [
    'sides without windows',
    fileWith(`{ off_peak: { ${RATE} }, peak: { ${RATE} } }`),
    /pricing: has no 'peak_windows_utc'/,
  ],
  ['no windows in the list', fileWith(timed('')), /peak_windows_utc: must hold at least one window/],
  [
    'flat rates beside windows',
    fileWith(timed(DAY).replace('{ peak', '{ input_per_1m_tokens_cents: 1, peak')),
    /:6:16: .*input_per_1m_tokens_cents: can't be combined with peak windows/,
  ],
  ['half a peak rate', fileWith(timed(DAY, 'input_per_1m_tokens_cents: 2')), /pricing.peak: has no output price/],
  [
    'half an off-peak rate',
    fileWith(timed(DAY, RATE, 'output_per_1m_tokens_cents: 2')),
    /pricing.off_peak: has no input price/,
  ],
  [
    'a peak cached rate that is no discount',
    fileWith(timed(DAY, `${RATE}, cached_input_per_1m_tokens_cents: 3`)),
    /pricing.peak: has a cached rate above the input rate/,
  ],
  [
    'peak cents that disagree',
    fileWith(timed(DAY, `${RATE}, input_per_1m_tokens_microcents: 1`)),
    /pricing.peak.input_per_1m_tokens_cents: disagrees with input_per_1m_tokens_microcents, which is 0 cents/,
  ],
  [
    'an unknown key of a side',
    fileWith(timed(DAY, `${RATE}, per_image_cents: 1`)),
    /pricing.peak.per_image_cents: there is no setting/,
  ],
  [
    'a price of the period',
    fileWith(`{ ${RATE}, period: peak }`),
    /period: 'period' is worked out from the time of day/,
  ],
  [
    'an empty window',
    fileWith(timed('{ start: "08:00", end: "08:00" }')),
    /peak_windows_utc\[0\]: is empty, as it ends where it starts/,
  ],
  [
    'a window without an end',
    fileWith(timed('{ start: "08:00" }')),
    /peak_windows_utc\[0\].end: is missing: it must be text/,
  ],
  [
    'a window from 24:00',
    fileWith(timed('{ start: "24:00", end: "08:00" }')),
    /peak_windows_utc\[0\].start: must be a time of day/,
  ],
  [
    'an hour without its zero',
    fileWith(timed('{ start: "8:00", end: "20:00" }')),
    /\[0\].start: must be a time of day in UTC as "HH:MM"/,
  ],
  [
    'a minute too many',
    fileWith(timed('{ start: "08:00", end: "19:60" }')),
    /\[0\].end: must be a time of day .* up to "24:00"/,
  ],
  ['an hour too many', fileWith(timed('{ start: "08:00", end: "24:01" }')), /\[0\].end: must be a time of day/],
  ['a number for a time', fileWith(timed('{ start: 8, end: 20 }')), /\[0\].start: must be text/],
  [
    'windows that overlap',
    fileWith(timed(`${DAY}, { start: "19:59", end: "21:00" }`)),
    /peak_windows_utc\[1\]: overlaps an earlier window/,
  ],
  [
    'a window that wraps into another',
    fileWith(timed(`${DAY}, { start: "22:00", end: "08:01" }`)),
    /peak_windows_utc\[1\]: overlaps an earlier window/,
  ],
  [
    'more windows than anyone needs',
    fileWith(timed(Array.from({ length: 25 }, (_, i) => `{ start: "00:${10 + i}", end: "00:${11 + i}" }`).join(', '))),
    /peak_windows_utc: must be at most 24 entries/,
  ],
  [
    'a bad peak of the economy tier',
    fileWith(`{ ${RATE} }`, 'chat', `    economy: { pricing: ${timed('{ start: "1:00", end: "02:00" }')} }\n`),
    /:7:\d+: models\[0\].economy.pricing.peak_windows_utc\[0\].start: must be a time of day/,
  ],
  [
    'an active image model without targets',
    fileWith('{ per_image_cents: 1 }', 'image').replace('coming_soon', 'active'),
    /targets: must name at least one target/,
  ],
  [
    'an active video model that says nothing of its length',
    fileWith('{ per_video_second_cents: 1 }', 'video').replace('coming_soon', 'active'),
    /parameters: must have 'seconds' with 'default' and 'max'/,
  ],
  [
    'a bound on prompts, on an image model',
    fileWith('{ per_image_cents: 1 }', 'image', '    prompt_bytes_per_token: 32\n'),
    /prompt_bytes_per_token: is for chat and embedding models: remove it/,
  ],
  [
    'how jobs are run, on an image model',
    fileWith('{ per_image_cents: 1 }', 'image', '    video: { concurrency: 2 }\n'),
    /video: is for video models: remove it/,
  ],
  [
    'jobs of a day and more',
    fileWith('{ per_video_second_cents: 1 }', 'video', '    video: { deadline_seconds: 86401 }\n'),
    /deadline_seconds/,
  ],
  [
    'an economy tier of images',
    fileWith('{ per_image_cents: 1 }', 'image', '    economy: { pricing: { per_image_cents: 1 } }\n'),
    /economy: only chat models have an economy tier/,
  ],
  [
    'output tokens of a video',
    fileWith('{ per_video_second_cents: 1 }', 'video', '    max_output_tokens: 1\n'),
    /a video model has no output tokens/,
  ],
  [
    'a discovered price per image',
    'discovered_price: { per_image_cents: 1 }',
    /discovered_price.per_image_cents: is for an image model/,
  ],
]
for (const [what, text, expected] of REFUSED) {
  test(`refused with line, path and what to do: ${what}`, () => {
    expect(problemsOf(text)).toMatch(expected)
  })
}

test('no pricing crashes the loader, and what it takes can be shown', () => {
  const time = fc.oneof(fc.constantFrom('08:00', '24:00', '00:00', '23:59', '8:00', '25:61', ''), fc.string())
  const amount = fc.oneof(fc.nat({ max: 9 }), fc.integer(), fc.double(), fc.constantFrom(null, 'x', 1e15, 1e16, -0))
  const rate = fc.oneof(
    fc.dictionary(
      fc.constantFrom(
        ...['input', 'output', 'cached_input'].flatMap((name) => [
          `${name}_per_1m_tokens_cents`,
          `${name}_per_1m_tokens_microcents`,
        ]),
      ),
      amount,
    ),
    fc.anything(),
  )
  const pricing = fc.record(
    {
      currency: fc.constantFrom('usd', 'eur'),
      input_per_1m_tokens_cents: amount,
      output_per_1m_tokens_microcents: amount,
      per_image_cents: amount,
      per_mpxl_microcents: amount,
      per_video_second_microcents: amount,
      per_video_microcents: amount,
      peak: rate,
      off_peak: rate,
      peak_windows_utc: fc.oneof(fc.array(fc.record({ start: time, end: time }), { maxLength: 5 }), fc.anything()),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(pricing, fc.constantFrom<Modality>('chat', 'image', 'video', 'embedding'), (given, modality) => {
      const text = JSON.stringify(given, (_, value) => (typeof value === 'bigint' ? String(value) : value))
      const loaded = load(fileWith(text, modality))
      if (!loaded.ok) {
        for (const { line, column } of loaded.problems) expect(line >= 1 && column >= 1).toBe(true)
        return
      }
      const price = loaded.settings.models?.[0]?.serverless.price
      if (price !== undefined) pricingToWire(price, modality, 0)
    }),
    { numRuns: 500 },
  )
})
