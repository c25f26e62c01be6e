import type { UndoSecret } from '../../../server/src/lib/commandOutput.ts'
import { parseInstant } from '../../../server/src/lib/instant.ts'
import { Secret } from '../../../server/src/lib/secret.ts'
import { facts, shortInstant, table } from '../../../server/src/lib/table.ts'
import { DAY_MS, SECOND_MS, toTimestamp } from '../../../server/src/lib/time.ts'
import { askedServer, callApi } from '../api.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { UsageMistake } from '../failure.ts'
import { idempotencyKey } from '../idempotencyKey.ts'
import { findKey, replaceKey } from '../logins.ts'
import { nextPage } from '../nextPage.ts'
import type { System } from '../system.ts'
import { wholeNumberOf } from '../values.ts'
import { readOwnKey } from './ownKey.ts'

const KEYS = '/manage/v1/keys'
const KEYS_MOST = 200
const KEYS_SHOWN = 50
/** Of 200 members each, read for the owners of keys. More is no table that anybody reads. */
const MEMBER_PAGES_MOST = 10
/** As the server has it. */
const OVERLAP_DAYS = 1
const OVERLAP_DAYS_MOST = 30
const NAME_CHARACTERS_MOST = 100
const HEADING = ['Id', 'Name', 'Scope', 'Owner', 'Last use', 'Expires'] as const
/** On a narrower terminal the table would break words in the middle. */
const TABLE_COLUMNS_LEAST = 130

interface ListedKey {
  readonly id: string
  readonly name: string | null
  readonly scope: string
  readonly admin: boolean
  readonly state: string
  /** Null: it belongs to the organization. */
  readonly member_id: string | null
  readonly created_at: string
  readonly expires_at: string | null
  readonly last_used_at?: string | null
}

interface MadeKey extends ListedKey {
  readonly key: string
}

interface KeyPage {
  readonly data: readonly ListedKey[]
  readonly next_cursor: string | null
}

const ID = { name: 'ID', summary: 'the key\'s id, as "tollgate keys list" shows it' }
const pathOf = (id: string) => `${KEYS}/${encodeURIComponent(id)}`

/** `tollgate keys list` */
export const listApiKeysCommand: CliCommand = {
  words: ['keys', 'list'],
  summary:
    "List the organization's API keys, newest first and ended ones last, without the keys themselves; needs an admin's key",
  options: [
    { name: 'limit', value: 'N', summary: `how many at most, 1 to ${KEYS_MOST}; default ${KEYS_SHOWN}` },
    { name: 'cursor', value: 'CURSOR', summary: 'the `next_cursor` of the page before' },
  ],
  examples: ['tollgate keys list', 'tollgate keys list --json --limit 200'],
  run: async (args, system) => {
    const query = new URLSearchParams({ limit: String(wholeNumberOf(args, 'limit', KEYS_MOST) ?? KEYS_SHOWN) })
    const cursor = args.text('cursor')
    if (cursor !== undefined) query.set('cursor', cursor)
    const page = (await callApi(args, system, { method: 'GET', path: `${KEYS}?${query}` })) as KeyPage
    if (args.json) return { json: page, text: '' }
    const owners = await ownersOf(args, system, page)
    const ended = page.data.filter(({ state }) => state !== 'active')
    const rows = [...page.data.filter(({ state }) => state === 'active'), ...ended].map((key) => toRow(key, owners))
    return { json: page, text: listOf(rows, system.stdoutColumns) + nextPage(args, page.next_cursor) }
  },
}

/** A table where its columns have room; else a few lines for each key. */
function listOf(rows: readonly (readonly string[])[], columnsMost: number): string {
  if (rows.length === 0 || columnsMost >= TABLE_COLUMNS_LEAST) {
    const heading = HEADING.map((each) => each.toUpperCase())
    return table(heading, rows, 'There are no API keys.', columnsMost)
  }
  return rows.map((row) => facts(HEADING.map((name, index) => [name, row[index] ?? '']))).join('\n')
}

function toRow(key: ListedKey, owners: ReadonlyMap<string, string>): string[] {
  const { id, name, scope, admin, state, member_id: memberId, expires_at: expires, last_used_at: used } = key
  return [
    id,
    name ?? '-',
    admin ? `${scope} (admin)` : scope,
    memberId === null ? 'organization' : (owners.get(memberId) ?? 'former member'),
    used == null ? 'never' : shortInstant(used),
    state !== 'active' ? state : expires === null ? 'never' : shortInstant(expires),
  ]
}

interface MemberPage {
  readonly data: readonly { readonly id: string; readonly email: string }[]
  readonly next_cursor: string | null
}

/** The mail addresses of the members that the keys belong to, by the member's id. */
async function ownersOf(args: CommandLine, system: System, { data }: KeyPage): Promise<Map<string, string>> {
  const owners = new Map<string, string>()
  const isComplete = () => data.every(({ member_id: id }) => id === null || owners.has(id))
  let cursor: string | null = null
  for (let pages = 0; pages < MEMBER_PAGES_MOST && !isComplete(); pages += 1) {
    const behind: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const path = `/manage/v1/members?limit=200${behind}`
    const page = (await callApi(args, system, { method: 'GET', path })) as MemberPage
    for (const { id, email } of page.data) owners.set(id, email)
    cursor = page.next_cursor
    if (cursor === null) break
  }
  return owners
}

/** `tollgate keys create NAME --scope …` */
export const createApiKeyCommand: CliCommand = {
  words: ['keys', 'create'],
  summary: "Make an API key of the organization and show it, only once; needs an admin's key",
  argument: { name: 'NAME', summary: 'its word in lists, such as the program that uses it' },
  options: [
    {
      name: 'scope',
      value: 'SCOPE',
      summary: 'full_access, read_only, or a list such as serverless:write,billing:read',
      isRequired: true,
    },
    { name: 'expires', value: 'WHEN', summary: 'a time from now such as 30d, or an ISO date; left out: never' },
    { name: 'admin', value: null, summary: "give it an admin's rights" },
  ],
  examples: ['tollgate keys create nightly-report --scope serverless:write,billing:read --expires 90d'],
  run: async (args, system) => {
    const expires = args.text('expires')
    const name = args.argument.trim()
    if (name === '' || name.length > NAME_CHARACTERS_MOST) {
      throw new UsageMistake(`NAME: must be text of 1 to ${NAME_CHARACTERS_MOST} characters`)
    }
    const made = await makeKey(args, system, KEYS, {
      name,
      scope: args.required('scope'),
      admin: args.flag('admin'),
      ...(expires !== undefined && { expires }),
    })
    return { json: made, text: `Made the key ${made.id}.\n${shown(made)}`, undo: undoOf(args, system, made) }
  },
}

/** `tollgate keys rotate ID` */
export const rotateApiKeyCommand: CliCommand = {
  words: ['keys', 'rotate'],
  summary: "Make an API key in place of another and show it, only once; needs an admin's key",
  argument: ID,
  options: [
    { name: 'overlap', value: 'TIME', summary: 'how long the old key still works, such as 12h or 0; default 1d' },
  ],
  examples: ['tollgate keys rotate 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --overlap 12h'],
  run: async (args, system) => {
    const id = args.argument
    const overlapMs = readOverlap(args.text('overlap'))
    const login = await loginWithKey(args, system, id)
    const body = { overlap_seconds: overlapMs / SECOND_MS }
    const made = await makeKey(args, system, `${pathOf(id)}/rotate`, body)
    const replaced = `Made the key ${made.id} in place of ${id}, which ${endOfOld(made, overlapMs, system)}.\n`
    const expires = `The new key ${made.expires_at === null ? 'never expires' : `expires ${utc(made.expires_at)}`}.\n`
    const isKept =
      login !== null &&
      (await replaceKey(system, login.url, new Secret(made.key), login.isOwn).then(
        () => true,
        // The key must not be lost with the login: it is shown then.
        () => false,
      ))
    if (login !== null && isKept) {
      // Nobody needs to see it, so that nothing is lost with the output.
      return { json: made, text: `${replaced}${expires}Your login to ${login.url} has the new key from now on.\n` }
    }
    const note = login === null ? '' : `Your login to ${login.url} could not take it, and has the old key.\n`
    return { json: made, text: `${replaced}${expires}${note}${shown(made)}`, undo: undoOf(args, system, made) }
  },
}

/** Reads a length of time such as `12h`, or `0`, as milliseconds. */
function readOverlap(typed: string | undefined): number {
  if (typed === undefined) return OVERLAP_DAYS * DAY_MS
  if (typed === '0') return 0
  const lengthMs = /^[0-9]+[mhdw]$/.test(typed) ? parseInstant(typed, 0) : null
  if (lengthMs !== null && lengthMs <= OVERLAP_DAYS_MOST * DAY_MS) return lengthMs
  throw new UsageMistake(
    `--overlap: must be a length of time such as 30m, 12h or 2d, of at most ${OVERLAP_DAYS_MOST} days, or 0`,
  )
}

/** The login that uses a key, with its server; null where none does. */
async function loginWithKey(args: CommandLine, system: System, id: string) {
  const url = await askedServer(args, system)
  const found = await findKey(system, url)
  if (found === null || found.source === 'environment') return null
  return (await readOwnKey(system, url, found.key)).id === id ? { url, isOwn: found.isOwn } : null
}

/** The new key expires when the old one would have. The old one ends then, or with the overlap. */
function endOfOld(made: MadeKey, overlapMs: number, { clock }: System): string {
  const untilMs = Date.parse(made.created_at) + overlapMs
  const endsAtMs = made.expires_at === null ? untilMs : Math.min(untilMs, Date.parse(made.expires_at))
  return overlapMs === 0 || endsAtMs <= clock.now() ? 'works no more' : `works until ${utc(toTimestamp(endsAtMs))}`
}

const utc = (timestamp: string) => `${shortInstant(timestamp)} UTC`

/** `tollgate keys revoke ID` */
export const revokeApiKeyCommand: CliCommand = {
  words: ['keys', 'revoke'],
  summary: "Revoke an API key for good, and end what runs on it; needs an admin's key",
  argument: ID,
  options: [],
  examples: ['tollgate keys revoke 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (args, system) => {
    const id = args.argument
    await callApi(args, system, { method: 'DELETE', path: pathOf(id) })
    return { json: { id, revoked: true }, text: `Revoked the key ${id}.\n` }
  },
}

async function makeKey(args: CommandLine, system: System, path: string, body: object): Promise<MadeKey> {
  const headers = { 'Idempotency-Key': idempotencyKey(system) }
  return (await callApi(args, system, { method: 'POST', path, body, headers })) as MadeKey
}

function shown({ key }: MadeKey): string {
  return `Keep it now, it can't be shown again:\n\n${key}\n`
}

function undoOf(args: CommandLine, system: System, { id }: MadeKey): UndoSecret {
  return {
    run: async () => void (await callApi(args, system, { method: 'DELETE', path: pathOf(id) })),
    done: `the key ${id} was revoked`,
    advice: `nobody has seen it: revoke it with "tollgate keys revoke ${id}"`,
  }
}
