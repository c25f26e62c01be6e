/** Turns what the server says into words of the command line: its messages name fields and routes of the HTTP interface. */

/** The options and arguments by which fields are given, for the routes that a pattern matches. */
const FIELDS: readonly (readonly [RegExp, Readonly<Record<string, string>>])[] = [
  [/^\/manage\/v1\/keys/, { name: 'NAME', scope: '--scope', expires: '--expires', overlap_seconds: '--overlap' }],
  [/^\/manage\/v1\/top-ups/, { amount_cents: 'AMOUNT' }],
  [/^\/v1\/billing\/spending-limit/, { monthly_limit_dollars: '--monthly', daily_limit_dollars: '--daily' }],
  [
    /^\/v1\/instances$/,
    {
      ...{ app: 'APP', gpu_type: '--gpu-type', gpu_count: '--gpus', disk_gb: '--disk', model: '--model' },
      ...{ name: '--name', expected_price_per_hour_cents: '--price' },
    },
  ],
  [/^\/v1\/webhook-endpoints/, { url: 'URL', event_types: '--events' }],
  [/^\/manage\/v1\/deliveries/, { state: '--state', endpoint_id: '--endpoint', event_id: '--event' }],
  [/^\/(v1|manage\/v1)\/usage/, { start: '--start', end: '--end', group_by: '--group-by' }],
  [/./, { cursor: '--cursor', limit: '--limit' }],
]

/** The commands that do what routes do, where the server's advice names one. */
const COMMANDS: Readonly<Record<string, string>> = {
  'GET /manage/v1/keys': 'tollgate keys list',
  'GET /manage/v1/deliveries': 'tollgate webhooks deliveries',
  'GET /v1/webhook-endpoints': 'tollgate webhooks list',
  'GET /v1/instances/offerings': 'tollgate instances offerings',
  'GET /v1/instances': 'tollgate instances list',
  'GET /v1/videos': 'tollgate video list',
  'PUT /v1/billing/spending-limit': 'tollgate limits set',
}

/** As the server says it of every feature that its operator has not switched on. */
const NOT_ENABLED = 'This endpoint is not enabled on this server.'

/** The features that an operator may leave off, by the routes that they are asked for. */
const FEATURES: readonly (readonly [RegExp, string])[] = [
  [/^\/manage\/v1\/(top-ups|payments)/, 'payments'],
  [/\/app-password$/, 'passwords for the apps of instances'],
  [/^\/v1\/(instances|operations)/, 'instances to rent'],
  [/^\/manage\/v1\//, 'accounts of people'],
]

/** As the server says it to programs, which see the header. */
const SECONDS = 'the seconds in Retry-After'

/** `path` is that of the request; `retryAfter` the header of the answer, in seconds, where there is one. */
export function inOwnWords(words: string, path: string, retryAfter: string | null): string {
  let said = words
    .replace(NOT_ENABLED, () => notOffered(path))
    .replace(/^The scope is not valid: /, '--scope: ')
    .replace(/^No such GPU type is offered: /, '--gpu-type: is not offered: ')
  for (const [route, command] of Object.entries(COMMANDS)) said = said.replaceAll(route, `"${command}"`)
  for (const [pattern, names] of FIELDS) {
    if (!pattern.test(path)) continue
    for (const [field, name] of Object.entries(names)) said = renameField(said, field, name)
  }
  if (retryAfter === null || !/^[0-9]{1,6}$/.test(retryAfter)) return said
  const seconds = `${retryAfter} ${retryAfter === '1' ? 'second' : 'seconds'}`
  if (said.includes(SECONDS)) return said.replace(SECONDS, seconds)
  return /again|wait/i.test(said) ? said : `${said} Try again in ${seconds}.`
}

function notOffered(path: string): string {
  const [, feature = 'features of this kind'] = FEATURES.find(([pattern]) => pattern.test(path)) ?? []
  return `This server has no ${feature}: its operator has not switched them on.`
}

function renameField(words: string, field: string, name: string): string {
  if (!words.includes(`'${field}'`)) return words
  const amount = (digits: string) => (field.endsWith('_cents') ? `$${(Number(digits) / 100).toFixed(2)}` : digits)
  const bound = (sign: string) => (sign === '>=' ? 'at least' : 'at most')
  return words
    .replace(`'${field}' is required`, `${name} is missing`)
    .replaceAll(`'${field}'`, name)
    .replace(/expected (?:number|int) to be ([<>]=)(\d+)/, (_, sign: string, digits: string) => {
      return `must be ${bound(sign)} ${amount(digits)}`
    })
    .replace(/expected (?:string|array) to have ([<>]=)(\d+) (characters|items)/, (_, sign, digits, unit) => {
      return `must have ${bound(sign)} ${digits} ${digits === '1' ? unit.replace(/s$/, '') : unit}`
    })
}
