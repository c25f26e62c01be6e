import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { settingsLoader } from '../../test/settingsLoader.ts'

const ENVIRONMENT = {
  VLLM_API_KEY: 'canary-key-1',
  ANTHROPIC_API_KEY: 'canary-4',
  GEMINI_API_KEY: 'canary-5',
  GATEWAY_TOKEN: 'canary-token-2',
}

const { problemsOf, settingsOf } = settingsLoader(ENVIRONMENT, '{"1":{"class_type":"T","text":"{{prompt}}"}}')

const PROVIDERS = `providers:
  box: { dialect: sandbox }
  vllm: { dialect: openai, base_url: "http://127.0.0.1:8000/v1/", api_key_env: VLLM_API_KEY }
  small: { dialect: gguf, file: m.gguf, context_tokens: 4096 }
`
const PRICING = 'pricing: { input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 30 }'

/** A file with one model, whose lines replace or follow the usual ones. The model's id stands in line 6. */
function withModel(changes: Readonly<Record<string, string | null>> = {}): string {
  const lines: Record<string, string | null> = {
    id: 'id: svc/m',
    context_length: 'context_length: 4096',
    pricing: PRICING,
    targets: 'targets: [{ provider: box }]',
    ...changes,
  }
  const kept = Object.values(lines).filter((line) => line !== null)
  return `${PROVIDERS}models:\n  - ${kept.join('\n    ')}\n`
}
const pricing = (inner: string) => withModel({ pricing: `pricing: { ${inner} }` })

const plan = '{ key: a, name: A plan, input_tokens_monthly: 1, output_tokens_monthly: 2, weekly_tokens: 3 }'
const plans = (...entries: string[]) => `plans:\n${entries.map((entry) => `  - ${entry}\n`).join('')}`

const EXAMPLE = readFileSync(new URL('../../../tollgate.example.yaml', import.meta.url), 'utf8')

test('the example file is good, as it is and with everything in comments taken in', () => {
  expect(problemsOf(EXAMPLE)).toEqual([])
  const taken = EXAMPLE.replaceAll(/^( +)# (?=\s|- |[a-z_]+:( |$))/gm, '$1')
  expect(problemsOf(taken)).toEqual([])
  const { models, providers } = settingsOf(taken)
  expect(models?.map((model) => model.id)).toEqual([
    'svc/demo',
    'svc/llama-3.3-70b',
    'svc/claude',
    'svc/gemini-flash',
    'svc/night-owl',
    'svc/embedder',
    'svc/painter',
    'svc/mosaic',
    'svc/director',
  ])
  expect(providers.map((provider) => provider.name)).toEqual([
    'sandbox',
    'vllm',
    'anthropic',
    'gemini',
    'painter',
    'comfy',
    'local',
  ])
})

test('an empty file, or one of comments, means the defaults', () => {
  for (const text of ['', '# nothing\n', 'models:\nproviders:\n']) {
    const settings = settingsOf(text)
    expect(settings.models).toBeNull()
    expect(settings.fixed).toMatchObject({ discovery: false, drainMs: 600_000, bodyLimitBytes: 8_388_608 })
    expect(settings.fixed.openRequestsPerKey).toBe(100)
    expect(settings.fixed.breakerFailures).toBe(5)
    expect(settings.fixed.chargeDeadlineMs).toBe(30_000)
    expect(settings.fixed.rateLimit).toEqual({ perSecond: 100, burst: 200 })
    expect(settings.fixed.newAccountRateLimit).toEqual({ perSecond: 15, burst: 30 })
    expect(settings.fixed.retentionDays).toBeNull()
    expect(settings.fixed.videoCancellationsPerHour).toBe(60)
    expect(settings.fixed.videoFailuresPerHour).toBe(1_000)
    expect([settings.fixed.queuedVideosMost, settings.fixed.videoRetentionDays]).toEqual([500, 90])
    expect(settings.fixed.otlp).toBeNull()
    expect(settings.fixed.compat).toEqual({
      maxCompletionTokens: false,
      neutralParameters: false,
      embeddingsBase64: false,
      textParts: false,
    })
  }
})

test('the deadline of charges is given in seconds', () => {
  expect(settingsOf('charge_deadline_seconds: 2.5').fixed.chargeDeadlineMs).toBe(2_500)
})

test('prices are read to the micro-cent, and the exact form goes before the rounded one', () => {
  const price = (inner: string) => settingsOf(pricing(inner)).models?.[0]?.serverless.price
  expect(price('input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 0')).toEqual({
    kind: 'tokens',
    inputMicrocents: 10_000_000n,
    outputMicrocents: 0n,
    cachedInputMicrocents: null,
  })
  const exact =
    'input_per_1m_tokens_cents: 1, input_per_1m_tokens_microcents: 500000, output_per_1m_tokens_microcents: 7'
  expect(price(`${exact}, cached_input_per_1m_tokens_microcents: 3`)).toEqual({
    kind: 'tokens',
    inputMicrocents: 500_000n,
    outputMicrocents: 7n,
    cachedInputMicrocents: 3n,
  })
})

test('a field that is left out of a model gets its default', () => {
  const model = settingsOf(withModel()).models?.[0]
  expect(model).toMatchObject({
    modality: 'chat',
    status: 'active',
    ownedBy: 'svc',
    maxOutputTokens: 4096,
    hiddenReasoningTokens: 0,
    promptBytesPerToken: 64,
    economy: null,
  })
  expect(model).toMatchObject({ usageFactorThousandths: 1000, fineTunable: false, planCovered: false })
  expect(model?.serverless.targets).toEqual([{ provider: 'box', model: 'box' }])
})

/** Each: what the operator wrote, and where and what the answer must say. */
const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  ['not YAML', 'models: [', /:1:10: is not YAML here/],
  ['a tab', 'providers:\n\tbox: 1', /:2:\d: is indented with a tab/],
  ['a key twice', 'owned_by: a\nowned_by: b', /:2:1: this key stands twice/],
  ['two documents', 'owned_by: a\n---\nowned_by: b', /:\d:\d: holds a second document/],
  ['no section at all', 'just words', /:1:1: must be a section/],
  [
    'an unknown key',
    'drain_second: 3',
    /:1:1: drain_second: there is no setting 'drain_second': did you mean 'drain_seconds'\?/,
  ],
  ['a port in the file', 'port: 80', /:1:1: port: .*--port/],
  ['an unknown level', 'log_level: loud', /:1:12: log_level: must be 'fatal' or/],
  ['a bad proxy', 'trusted_proxies: [10.0.0.0/8, nginx]', /:1:31: trusted_proxies\[1\]: must be an address or a range/],
  [
    'a deadline above the whole',
    'deadlines: { whole_seconds: 1, connect_seconds: 2 }',
    /deadlines.connect_seconds: must be at most whole_seconds, 1/,
  ],
  ['no cancellation at all', 'video_cancellations_per_hour: 0', /video_cancellations_per_hour: must be at least 1/],
  ['cancellations without end', 'video_cancellations_per_hour: 10001', /must be at most 10000/],
  ['no failure at all', 'video_failures_per_hour: 0', /video_failures_per_hour: must be at least 1/],
  ['a queue for no video', 'queued_videos: 0', /queued_videos: must be at least 1/],
  ['a queue without end', 'queued_videos: 10001', /must be at most 10000/],
  ['videos that are kept for no day', 'video_retention_days: 0', /video_retention_days: must be at least 1/],
  ['a retention too short', 'retention_days: 6', /retention_days: must be at least 7/],
  [
    'a switch that is no switch',
    'compat: { neutral_parameters: 1 }',
    /compat.neutral_parameters: must be true or false/,
  ],
  [
    'a collector without its scheme',
    'otlp: { endpoint: "127.0.0.1:4318" }',
    /otlp.endpoint: must be a collector's address/,
  ],
  ['a deadline of charges that is none', 'charge_deadline_seconds: 0.5', /charge_deadline_seconds: must be at least 1/],
  ['one for ever', 'charge_deadline_seconds: 601', /charge_deadline_seconds: must be at most 600/],
  ['a limit of nothing', 'body_limit_bytes: 0', /body_limit_bytes: must be at least 1024/],
  ['providers as a list', 'providers: [a]', /providers: must be a section/],
  ['models as a section', 'models: {a: 1}', /models: must be a list/],
  ['an id without the brand', withModel({ id: 'id: m' }), /:6:9: models\[0\].id: must be 'svc\/'/],
  ['an id in capitals', withModel({ id: 'id: svc/M' }), /models\[0\].id: must be 'svc\/'/],
  ['an id of the economy tier', withModel({ id: 'id: svc/m:economy' }), /models\[0\].id: must not end in ':economy'/],
  ['an alias of the economy tier', withModel({ a: 'aliases: ["x:economy"]' }), /aliases\[0\]: must not end in/],
  ['an alias with a space', withModel({ a: 'aliases: [a b]' }), /aliases\[0\]: must be 1 to 128 printable/],
  [
    'an alias that is its id',
    withModel({ a: 'aliases: [svc/m]' }),
    /aliases\[0\]: is already the name of a model, in line 6/,
  ],
  ['no context length', withModel({ context_length: null }), /models\[0\].context_length: is missing/],
  [
    'an output above the context',
    withModel({ a: 'max_output_tokens: 4097' }),
    /max_output_tokens: must be at most the context_length, 4096/,
  ],
  [
    'an unknown provider',
    withModel({ targets: 'targets: [{ provider: vlm, model: x }]' }),
    /targets\[0\].provider: there is no provider .* did you mean 'vllm'/,
  ],
  [
    'a target without its model',
    withModel({ targets: 'targets: [{ provider: vllm }]' }),
    /targets\[0\].model: is missing/,
  ],
  [
    'one target twice',
    withModel({ targets: 'targets: [{ provider: box }, { provider: box }]' }),
    /targets\[1\].provider: stands twice/,
  ],
  ['an active model without targets', withModel({ targets: null }), /targets: must name at least one target/],
  [
    'a context that the file has not',
    withModel({ context_length: 'context_length: 4097', targets: 'targets: [{ provider: small }]' }),
    /gives each call 4096 tokens/,
  ],
  [
    'its own base model',
    withModel({ a: 'fine_tunable: true', b: 'fine_tune_base_model: svc/m' }),
    /fine_tune_base_model: must differ from the id/,
  ],
  [
    'a base model of what is not tunable',
    withModel({ b: 'fine_tune_base_model: svc/x' }),
    /needs 'fine_tunable: true'/,
  ],
  [
    'a parameter that chat has not',
    withModel({ a: 'supported_parameters: [tools]' }),
    /supported_parameters\[0\]: chat takes max_tokens/,
  ],
  ['a usage factor of nothing', withModel({ a: 'usage_factor: 0' }), /usage_factor: must be at least 0.001/],
  ['a usage factor too fine', withModel({ a: 'usage_factor: 1.23456' }), /usage_factor: takes at most three decimals/],
  [
    'an embedding model that puts out tokens',
    withModel({ a: 'modality: embedding' }),
    /an embedding model has no output tokens/,
  ],
  ['no pricing', withModel({ pricing: null }), /models\[0\].pricing: is missing/],
  ['no billable price', pricing('currency: usd'), /pricing: has no billable price/],
  ['half a price', pricing('input_per_1m_tokens_cents: 1'), /pricing: has no output price/],
  [
    'a negative price',
    pricing('input_per_1m_tokens_cents: -1, output_per_1m_tokens_cents: 1'),
    /input_per_1m_tokens_cents: must not be negative/,
  ],
  [
    'a fraction of a cent',
    pricing('input_per_1m_tokens_cents: 0.5, output_per_1m_tokens_cents: 1'),
    /input_per_1m_tokens_cents: must be a whole number of cents.*_microcents/,
  ],
  [
    'a price beyond reason',
    pricing('input_per_1m_tokens_cents: 1000000001, output_per_1m_tokens_cents: 1'),
    /must be at most 1000000000/,
  ],
  [
    'prices that disagree',
    pricing('input_per_1m_tokens_cents: 2, input_per_1m_tokens_microcents: 1499999, output_per_1m_tokens_cents: 1'),
    /input_per_1m_tokens_cents: disagrees with input_per_1m_tokens_microcents, which is 1 cents/,
  ],
  [
    'a cached rate that is no discount',
    pricing('input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1, cached_input_per_1m_tokens_cents: 2'),
    /cached rate above the input rate/,
  ],
  [
    'per image and per megapixel',
    pricing('per_image_cents: 1, per_mpxl_microcents: 1'),
    /can't be combined with a price per image/,
  ],
  ['a grace below nothing', 'grace_seconds: -1', /grace_seconds: must be at least 0/],
  ['a grace of more than a day', 'grace_seconds: 86401', /grace_seconds: must be at most 86400/],
  ['a grace in parts of a second', 'grace_seconds: 0.5', /grace_seconds: must be a whole number/],
  ['plans that are no list', 'plans: { key: a }', /plans: must be a list with one '- key: …'/],
  ['a plan without a quota', plans('{ key: a, name: A }'), /plans\[0\].weekly_tokens: is missing/],
  ['a quota of nothing', plans(plan.replace('weekly_tokens: 3', 'weekly_tokens: 0')), /weekly_tokens: must be a/],
  ['a key with capitals', plans(plan.replace('key: a', 'key: A')), /plans\[0\].key: must be 1 to 64 of a-z/],
  ['a plan called none', plans(plan.replace('key: a', 'key: none')), /key: must not be 'none'/],
  ['two plans of one key', plans(plan, plan), /plans\[1\].key: is the key of the plan in line 2: change one/],
  [
    'a backstop that disagrees',
    plans(plan.replace(' }', ', max_usage_cents: 1, max_usage_microcents: 5 }')),
    /max_usage_cents: disagrees/,
  ],
  ['models of a plan', plans(plan.replace(' }', ', models: [svc/m] }')), /models: write 'plan_covered: true'/],
  [
    'a video within plans',
    withModel({
      a: 'modality: video',
      status: 'status: coming_soon',
      plan: 'plan_covered: true',
      pricing: 'pricing: { per_video_second_cents: 5 }',
    }),
    /plan_covered: no plan ever covers videos/,
  ],
  [
    'a bad economy price',
    withModel({ e: 'economy: { pricing: { input_per_1m_tokens_cents: 1 }, targets: [{ provider: box }] }' }),
    /models\[0\].economy.pricing: has no output price/,
  ],
]

test('plans are read in their order, the backstop to the micro-cent', () => {
  const second = plan.replace('key: a', 'key: b').replace(' }', ', max_usage_microcents: 1500001 }')
  const quota = { inputTokens: 1, outputTokens: 2, weeklyTokens: 3, backstopMicrocents: 0n }
  expect(settingsOf(plans(plan, second)).plans).toEqual([
    { key: 'a', name: 'A plan', graceMs: 3_600_000, quota },
    { key: 'b', name: 'A plan', graceMs: 3_600_000, quota: { ...quota, backstopMicrocents: 1_500_001n } },
  ])
  for (const empty of ['plans:\n', 'plans: []\n', '']) expect(settingsOf(empty).plans).toEqual([])
})

test('the grace after a period is of all plans alike, and may be none', () => {
  const second = plan.replace('key: a', 'key: b')
  for (const seconds of [0, 1, 86_400]) {
    const read = settingsOf(`grace_seconds: ${seconds}\n${plans(plan, second)}`).plans
    expect(read.map(({ graceMs }) => graceMs)).toEqual([seconds * 1_000, seconds * 1_000])
  }
})

for (const [what, text, expected] of REFUSED) {
  test(`refused with line, path and what to do: ${what}`, () => {
    const problems = problemsOf(text)
    expect(problems.join('\n')).toMatch(expected)
    expect(problems.join('\n')).not.toMatch(/canary|sk-1/)
  })
}

test('an id or alias that stands for two models is refused at its second place', () => {
  const second = withModel({ a: 'aliases: [n]' }).slice(withModel().indexOf('  - '))
  const problems = problemsOf(`${withModel({ a: 'aliases: [n]' })}${second}`)
  expect(problems).toHaveLength(2)
  expect(problems[0]).toMatch(/models\[1\].id: is already the name of a model, in line 6/)
  expect(problems[1]).toMatch(/models\[1\].aliases\[0\]: is already the name of a model, in line 10/)
})

test('one run shows every problem, in the order of the file', () => {
  const problems = problemsOf(
    `drain: 3\n${pricing('input_per_1m_tokens_cents: -1')}`.replace('box: {', 'box: { pace: 3,'),
  )
  expect(problems.map((problem) => problem.split(':')[1])).toEqual(['1', '3', '9'])
})

test('models that can not be called need no target', () => {
  const listed = withModel({ targets: null, a: 'status: coming_soon' })
  expect(settingsOf(listed).models?.[0]?.status).toBe('coming_soon')
})

test('how notices are mailed is read, and its password never stands in the file', () => {
  const at = (inner: string) => `smtp: { host: mail.example.com, from: "Tollgate <b@example.com>", ${inner} }\n`
  const { smtp, lowBalanceMicrocents } = settingsOf(
    `${at('user: t, password_env: VLLM_API_KEY')}low_balance_cents: 25\n`,
  ).fixed
  expect(smtp).toMatchObject({ host: 'mail.example.com', port: 587, tls: 'starttls', from: 'Tollgate <b@example.com>' })
  expect([smtp?.login?.user, smtp?.login?.password.reveal(), inspect(smtp).includes('canary')]).toEqual([
    't',
    'canary-key-1',
    false,
  ])
  expect(lowBalanceMicrocents).toBe(25_000_000n)
  expect(settingsOf(at('port: 25, tls: none')).fixed.smtp).toMatchObject({ port: 25, tls: 'none', login: null })
  for (const [inner, problem] of [
    ['password: canary', "name that in 'password_env'"],
    ['user: t', "needs 'password_env' beside it"],
    ['password_env: VLLM_API_KEY', "needs 'user' beside it"],
    ['user: t, password_env: MISSING', 'MISSING is not set'],
    ['user: t, password_env: VLLM_API_KEY, tls: none', 'not sent without encryption'],
    ['tls: maybe', 'smtp.tls'],
    ['port: 0', 'smtp.port'],
  ] as const) {
    expect(problemsOf(at(inner)).join()).toContain(problem)
    expect(problemsOf(at(inner)).join()).not.toContain('canary-')
  }
  expect(problemsOf('smtp: { host: "a b", from: nobody }\n')).toHaveLength(2)
})

describe('a section with nothing but comments beneath it is an empty section, whichever it is', () => {
  test.each([
    ['accounts', {}],
    ['webhooks', {}],
    ['compat', {}],
    ['kept_answers', {}],
    ['deadlines', {}],
    ['artifacts', {}],
    ['smtp', /smtp\.host: is missing/],
    ['payments', /payments\.provider: is missing/],
    ['deposits', /deposits\.\w+: is missing/],
    ['instances', /instances\.\w+: is missing/],
    ['otlp', /otlp\.endpoint: is missing/],
    ['rate_limit', /rate_limit\.\w+: is missing/],
    ['new_account_rate_limit', /new_account_rate_limit\.\w+: is missing/],
  ] as const)('%s', (name, expected) => {
    const bare = `${name}:\n  # comment: 1\n`
    const empty = `${name}: {}\n`
    expect(problemsOf(bare).map((each) => each.replace(/:\d+:\d+:/, ':'))).toEqual(
      problemsOf(empty).map((each) => each.replace(/:\d+:\d+:/, ':')),
    )
    if (expected instanceof RegExp) expect(problemsOf(bare).join('\n')).toMatch(expected)
    else expect(settingsOf(bare)).toEqual(settingsOf(empty))
  })

  test('accounts are on, and a setting or a list with nothing behind it is left out', () => {
    expect(settingsOf('accounts:\n  # session_days: 7\n').fixed.accounts).toMatchObject({ sessionDays: 7 })
    expect(settingsOf('models:\nproviders:\nlog_level:\n')).toEqual(settingsOf(''))
  })
})
