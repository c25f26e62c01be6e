import { createHmac } from 'node:crypto'
import { HEADER_BRAND } from './brand.ts'
import type { Secret } from './secret.ts'

/** The parts of one event that are sent and signed. */
export interface Signable {
  readonly eventId: string
  /** The body, byte for byte. */
  readonly body: string
}

/**
 * The headers of an attempt. The HMAC's key is the UTF-8 bytes of the secret as it was shown, not what its hex digits
 * stand for (W2). Beside ours are those of the Standard Webhooks specification, which sign the id too.
 *
 * @param atMs the instant of the attempt, milliseconds since the epoch
 */
export function signedHeaders({ eventId, body }: Signable, secret: Secret, atMs: number): Record<string, string> {
  const seconds = Math.floor(atMs / 1_000)
  const hmac = (text: string) => createHmac('sha256', secret.reveal()).update(text)
  return {
    'content-type': 'application/json',
    'user-agent': `${HEADER_BRAND}-Webhooks/1`,
    [`${HEADER_BRAND}-Signature`]: `t=${seconds},v1=${hmac(`${seconds}.${body}`).digest('hex')}`,
    [`${HEADER_BRAND}-Event-Id`]: eventId,
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds),
    'webhook-signature': `v1,${hmac(`${eventId}.${seconds}.${body}`).digest('base64')}`,
  }
}
