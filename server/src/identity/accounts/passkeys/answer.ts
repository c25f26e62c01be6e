/** The answers of devices, as the script of a page sends them: JSON in a field of a form. */

import { z } from 'zod'

/** Far more than a device sends without an attestation. */
const ANSWER_CHARACTERS_MOST = 8_192

const base64Url = z.string().regex(/^[\w-]{1,6000}$/)

const registrationAnswer = z.object({
  id: base64Url,
  response: z.object({ clientDataJSON: base64Url, attestationObject: base64Url }),
})

const signInAnswer = z.object({
  id: base64Url,
  response: z.object({
    clientDataJSON: base64Url,
    authenticatorData: base64Url,
    signature: base64Url,
    /** The person whose passkey it is, as the device was told when it was made; null: the device does not say. */
    userHandle: base64Url.nullable(),
  }),
})

export type RegistrationAnswer = z.infer<typeof registrationAnswer>
export type SignInAnswer = z.infer<typeof signInAnswer>

/** Reads the answer to the wish for a new passkey; null when it is none. */
export function readNewPasskey(text: string): RegistrationAnswer | null {
  return read(registrationAnswer, text)
}

/** Reads the answer to a challenge of a sign-in; null when it is none. */
export function readSignIn(text: string): SignInAnswer | null {
  return read(signInAnswer, text)
}

function read<T>(schema: z.ZodType<T>, text: string): T | null {
  if (text.length > ANSWER_CHARACTERS_MOST) return null
  try {
    const parsed = schema.safeParse(JSON.parse(text))
    return parsed.success ? parsed.data : null
  } catch {
    return null
  }
}

/** Bytes as the text in which browsers and devices exchange them. */
export function toBase64Url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}

/** The bytes of such a text. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text, 'base64url'))
}
