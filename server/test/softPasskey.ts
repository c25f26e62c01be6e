/** A device with one passkey, in software: it answers the options of a page, and can be told to answer wrongly. */

import { createHash, generateKeyPairSync, sign as signBytes } from 'node:crypto'

/** In place of what an honest device would do. */
export interface Dishonest {
  readonly origin?: string
  readonly relyingParty?: string
  readonly challenge?: string
  readonly userHandle?: string
  readonly credentialId?: string
  /** Left out: 0x05, the user was present and verified. */
  readonly flags?: number
  readonly signCount?: number
}

export interface SoftPasskey {
  readonly credentialId: string
  /** Answers the wish for a new passkey: the text of the field `answer`. */
  register(options: PasskeyOptions, dishonest?: Dishonest): string
  /** Answers a challenge of a sign-in. */
  signIn(options: PasskeyOptions, dishonest?: Dishonest): string
}

/** As they stand on the page. */
export interface PasskeyOptions {
  readonly challenge: string
  readonly rpId?: string
  readonly rp?: { readonly id: string }
  readonly user?: { readonly id: string }
}

/** The options in the HTML of a page that asks for a passkey. */
export function passkeyOptionsIn(html: string): PasskeyOptions {
  return JSON.parse((/data-passkey="([^"]*)"/.exec(html)?.[1] ?? '').replaceAll('&quot;', '"'))
}

const VERIFIED = 0x05
const WITH_CREDENTIAL = 0x40

export function softPasskey(origin: string): SoftPasskey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const [rawX, rawY] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]
  // A map of COSE: EC2, ES256, P-256, x, y.
  const key = Buffer.concat([Buffer.from('a5010203262001215820', 'hex'), rawX, Buffer.from('225820', 'hex'), rawY])
  const credentialId = createHash('sha256').update(rawX).digest()
  let userHandle: string | null = null
  const clientData = (type: string, { challenge }: PasskeyOptions, dishonest: Dishonest) =>
    Buffer.from(
      JSON.stringify({ type, challenge: dishonest.challenge ?? challenge, origin: dishonest.origin ?? origin }),
    )
  const head = (id: string, flags: number, signCount: number) => {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(signCount)
    return Buffer.concat([createHash('sha256').update(id).digest(), Buffer.from([flags]), count])
  }
  return {
    credentialId: credentialId.toString('base64url'),
    register(options, dishonest = {}) {
      userHandle = options.user?.id ?? null
      const flags = (dishonest.flags ?? VERIFIED) | WITH_CREDENTIAL
      const authData = Buffer.concat([
        head(dishonest.relyingParty ?? options.rp?.id ?? '', flags, dishonest.signCount ?? 0),
        Buffer.alloc(16),
        Buffer.from([0, credentialId.length]),
        credentialId,
        key,
      ])
      // A map of CBOR: fmt "none", attStmt {}, authData.
      const attestation = Buffer.concat([
        Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746158', 'hex'),
        Buffer.from([authData.length]),
        authData,
      ])
      return JSON.stringify({
        id: credentialId.toString('base64url'),
        response: {
          clientDataJSON: clientData('webauthn.create', options, dishonest).toString('base64url'),
          attestationObject: attestation.toString('base64url'),
        },
      })
    },
    signIn(options, dishonest = {}) {
      const data = clientData('webauthn.get', options, dishonest)
      const { relyingParty = options.rpId ?? '', flags = VERIFIED, signCount = 0 } = dishonest
      const authenticatorData = head(relyingParty, flags, signCount)
      const signed = Buffer.concat([authenticatorData, createHash('sha256').update(data).digest()])
      return JSON.stringify({
        id: dishonest.credentialId ?? credentialId.toString('base64url'),
        response: {
          clientDataJSON: data.toString('base64url'),
          authenticatorData: authenticatorData.toString('base64url'),
          signature: signBytes('sha256', signed, privateKey).toString('base64url'),
          userHandle: dishonest.userHandle ?? userHandle,
        },
      })
    },
  }
}
