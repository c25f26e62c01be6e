import { z } from 'zod'
import { isPlainOrigin } from '../lib/plainOrigin.ts'
import type { Path, Report } from './document.ts'
import { credentialOf, type SettingsContext, variableName } from './loadRemote.ts'
import { LOCAL_PAYMENTS, type PaymentProviderSettings, type PaymentSettings } from './settings.ts'
import { closed, whole } from './shape.ts'

/** The least that payment providers take, and the most. */
const CENTS_MIN = 50
const CENTS_MAX = 99_999_999

const SECRET_HINT =
  "a credential must not be in this file: put it into an environment variable, and name that in 'secret_key_env'"
const WEBHOOK_HINT =
  "a credential must not be in this file: put it into an environment variable, and name that in 'webhook_secret_env'"

/** Where people reach the server. */
export const PublicUrlShape = z
  .string()
  .regex(/^https?:\/\/[^\s/?#@]+\/*$/, {
    error: "must be an address without a path, such as 'https://gateway.example.com'",
    abort: true,
  })
  .refine((text) => URL.canParse(text) && isPlainOrigin(new URL(text).origin), {
    error: "must name a host of letters, digits, dots and hyphens, such as 'https://gateway.example.com'",
  })
  .optional()

/** The section `payments` as it stands in the file. */
export const PaymentsShape = closed(
  {
    provider: z.enum(['local', 'stripe']),
    secret_key_env: variableName.optional(),
    webhook_secret_env: variableName.optional(),
    automatic_tax: z.boolean().optional(),
    api_url: z
      .string()
      .regex(
        /^(https:\/\/|http:\/\/(127\.0\.0\.1|localhost)(:|$))[^\s/?#@]*$/,
        'must be https, or http to this machine',
      )
      .optional(),
    top_up_min_cents: whole(CENTS_MIN, CENTS_MAX).optional(),
    top_up_max_cents: whole(CENTS_MIN, CENTS_MAX).optional(),
  },
  { secret_key: SECRET_HINT, api_key: SECRET_HINT, webhook_secret: WEBHOOK_HINT },
).optional()

type PaymentsInput = NonNullable<z.infer<typeof PaymentsShape>>

/** Reads how organizations pay. Null where something was reported. */
export function loadPayments(
  read: PaymentsInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): PaymentSettings | null {
  const { top_up_min_cents: topUpMinCents = LOCAL_PAYMENTS.topUpMinCents } = read
  const { top_up_max_cents: topUpMaxCents = Math.max(LOCAL_PAYMENTS.topUpMaxCents, topUpMinCents) } = read
  if (topUpMaxCents < topUpMinCents)
    report([...path, 'top_up_max_cents'], `must be at least top_up_min_cents, ${topUpMinCents}`)
  const provider = read.provider === 'stripe' ? stripe(read, path, context, report) : local(read, path, report)
  return provider && { provider, topUpMinCents, topUpMaxCents }
}

function local(read: PaymentsInput, path: Path, report: Report): PaymentProviderSettings {
  for (const key of ['secret_key_env', 'webhook_secret_env', 'automatic_tax', 'api_url'] as const)
    if (read[key] !== undefined) report([...path, key], 'is for the provider stripe only: remove it', 'key')
  return { name: 'local' }
}

function stripe(
  input: PaymentsInput,
  path: Path,
  context: SettingsContext,
  report: Report,
): PaymentProviderSettings | null {
  const { secret_key_env: keyVariable, webhook_secret_env: webhookVariable } = input
  if (keyVariable === undefined) {
    report([...path, 'provider'], "needs 'secret_key_env' beside it: the name of an environment variable")
    return null
  }
  const read = (variable: string, key: string) =>
    credentialOf(variable, context, (reason) => report([...path, key], reason))
  const secretKey = read(keyVariable, 'secret_key_env')
  const webhookSecret = webhookVariable === undefined ? null : read(webhookVariable, 'webhook_secret_env')
  const { automatic_tax: automaticTax = false, api_url: apiUrl = null } = input
  return secretKey && { name: 'stripe', secretKey, webhookSecret, automaticTax, apiUrl }
}
