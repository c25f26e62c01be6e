import { resolve } from 'node:path'
import { z } from 'zod'
import type { Path, Report } from './document.ts'
import { ComfyuiShape, loadComfyui } from './loadComfyui.ts'
import { loadRemote, RemoteShape, type SettingsContext } from './loadRemote.ts'
import { ENGINES_REFUSED, FAILURE_KINDS, GGUF_DEFAULTS, type ProviderSettings, SANDBOX_DEFAULTS } from './provider.ts'
import { closed, nearest, readShape, whole } from './shape.ts'

const DIALECTS = {
  openai: RemoteShape,
  anthropic: RemoteShape,
  gemini: RemoteShape,
  sdcpp: RemoteShape,
  comfyui: ComfyuiShape,
  gguf: closed({
    dialect: z.literal('gguf'),
    file: z.string().min(1),
    sequences: whole(1, 64).default(GGUF_DEFAULTS.sequences),
    context_tokens: whole(64, 16_777_216).default(GGUF_DEFAULTS.contextTokens),
  }),
  sandbox: closed({
    dialect: z.literal('sandbox'),
    first_token_ms: whole(0, 600_000).default(SANDBOX_DEFAULTS.firstTokenMs),
    tokens_per_second: z
      .union(
        [z.literal('unlimited'), z.number().min(0.01).max(1_000_000)],
        "must be a number from 0.01 to 1000000, or 'unlimited'",
      )
      .default(SANDBOX_DEFAULTS.tokensPerSecond),
    reply_tokens: whole(1, 1_000_000).optional(),
    video_seconds_per_second: z
      .union(
        [z.literal('unlimited'), z.number().min(0.01).max(1_000_000)],
        "must be a number from 0.01 to 1000000, or 'unlimited'",
      )
      .default(SANDBOX_DEFAULTS.videoSecondsPerSecond),
    failure: closed({ kind: z.enum(FAILURE_KINDS), after_tokens: whole(0, 1_000_000).default(0) }).optional(),
  }),
} as const

const PROVIDER_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/

/** Reads one entry of `providers`. Null where something was reported. */
export function loadProvider(
  name: string,
  value: unknown,
  path: Path,
  context: SettingsContext,
  report: Report,
): ProviderSettings | null {
  const dialect = dialectOf(value, path, report)
  checkName(name, dialect, path, report)
  if (dialect === null) return null
  if (dialect === 'gguf') {
    const read = readShape(DIALECTS.gguf, value, path, report)
    if (read === null) return null
    if (context.isShared === true) {
      report([...path, 'dialect'], ENGINES_REFUSED)
      return null
    }
    const file = resolve(context.directory, read.file)
    if (context.fileExists(file))
      return { name, dialect, file, sequences: read.sequences, contextTokens: read.context_tokens }
    report([...path, 'file'], 'there is no such file: relative paths start from the folder of this settings file')
    return null
  }
  if (dialect === 'comfyui') return loadComfyui(name, value, path, context, report)
  if (dialect !== 'sandbox') return loadRemote(name, value, path, context, report)
  const read = readShape(DIALECTS.sandbox, value, path, report)
  if (read === null) return null
  const { failure } = read
  return {
    name,
    dialect,
    firstTokenMs: read.first_token_ms,
    tokensPerSecond: read.tokens_per_second === 'unlimited' ? null : read.tokens_per_second,
    replyTokens: read.reply_tokens ?? SANDBOX_DEFAULTS.replyTokens,
    videoSecondsPerSecond: read.video_seconds_per_second === 'unlimited' ? null : read.video_seconds_per_second,
    ...(failure !== undefined && { failure: { kind: failure.kind, afterTokens: failure.after_tokens } }),
  }
}

function checkName(name: string, dialect: string | null, path: Path, report: Report): void {
  if (!PROVIDER_NAME.test(name)) {
    report(path, 'a provider is named by 1 to 64 of a-z, 0-9, ".", "_" and "-", the first a letter or digit', 'key')
  } else if (name.startsWith('discovered-')) {
    report(path, "names that start with 'discovered-' belong to what is found at start: choose another", 'key')
  } else if (name === 'sandbox' && dialect !== null && dialect !== 'sandbox') {
    report(path, "the name 'sandbox' belongs to the dialect 'sandbox': choose another", 'key')
  }
}

const DIALECT_NAMES = Object.keys(DIALECTS) as (keyof typeof DIALECTS)[]
const CHOICES = DIALECT_NAMES.map((dialect) => `'${dialect}'`).join(', ')

function dialectOf(value: unknown, path: Path, report: Report): keyof typeof DIALECTS | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    report(path, `must be a section with 'dialect:' and one of ${CHOICES}`)
    return null
  }
  const dialect = 'dialect' in value ? value.dialect : undefined
  const known = DIALECT_NAMES.find((each) => each === dialect)
  if (known !== undefined) return known
  const near = typeof dialect === 'string' ? nearest(dialect, DIALECT_NAMES) : null
  const suggestion = near === null ? '' : `: did you mean '${near}'?`
  report(
    [...path, 'dialect'],
    `${dialect === undefined ? 'is missing: it ' : ''}must be one of ${CHOICES}${suggestion}`,
  )
  return null
}
