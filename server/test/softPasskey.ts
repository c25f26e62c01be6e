/** A device with one passkey, in software: it answers the options of a page, and can be told to answer wrongly. */

import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto'

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
  /** The format in which a new key is attested; left out: `none`. */
  readonly attestation?: 'packed' | 'packed by a certificate' | 'apple'
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

/** The key of a maker of devices, and its certificate, which says that http://192.0.2.1/crl lists the revoked ones. */
const MAKER_KEY =
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg6RmuIkdgU4DGPEEdlm2HAKe+CkoWKGIxvzBpoh6KToahRANCAATv9tjoQPODUm' +
  'pddLCPha7RYoCWaxNu06+rE6EIaJiGuy8EecRAVdr5Zuco3bCfKziIw+PyWEctMKgFdXR1L4xb'
const MAKER_CERTIFICATE =
  'MIIB1jCCAXygAwIBAgIBATAKBggqhkjOPQQDAjBJMQswCQYDVQQGEwJERTEKMAgGA1UECgwBeDEiMCAGA1UECwwZQXV0aGVudGljYXRvciBBdH' +
  'Rlc3RhdGlvbjEKMAgGA1UEAwwBeDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowSTELMAkGA1UEBhMCREUxCjAIBgNVBAoMAXgx' +
  'IjAgBgNVBAsMGUF1dGhlbnRpY2F0b3IgQXR0ZXN0YXRpb24xCjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATv9tjoQPODUm' +
  'pddLCPha7RYoCWaxNu06+rE6EIaJiGuy8EecRAVdr5Zuco3bCfKziIw+PyWEctMKgFdXR1L4xbo1MwUTAJBgNVHRMEAjAAMCUGA1UdHwQeMBww' +
  'GqAYoBaGFGh0dHA6Ly8xOTIuMC4yLjEvY3JsMB0GA1UdDgQWBBQviniwl8MwrpmM6o2blC8wahwhtzAKBggqhkjOPQQDAgNIADBFAiBZ1LWZhf' +
  'eEmTF/m4HLQBJUPeSrMueQ4Sjp2Ywcl3mHLwIhAJOfD74VN1Gg4aS/64DxVaSWIb8rsGylTPxFV23n/Nm0'

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
      const data = clientData('webauthn.create', options, dishonest)
      const signed = Buffer.concat([authData, createHash('sha256').update(data).digest()])
      const statement = statementOf(dishonest.attestation, signed, privateKey)
      const attestation = cborMap([
        ['fmt', cborText(dishonest.attestation?.split(' ')[0] ?? 'none')],
        ['attStmt', statement],
        ['authData', cborBytes(authData)],
      ])
      return JSON.stringify({
        id: credentialId.toString('base64url'),
        response: {
          clientDataJSON: data.toString('base64url'),
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

/** The statement beside a new key: nothing, or a signature (ES256) by the key itself or by the key of a certificate. */
function statementOf(attestation: Dishonest['attestation'], signed: Buffer, own: KeyObject): Buffer {
  if (attestation === undefined) return cborMap([])
  const signatureBy = (key: KeyObject): [string, Buffer][] => [
    ['alg', Buffer.from([0x26])],
    ['sig', cborBytes(signBytes('sha256', signed, key))],
  ]
  if (attestation === 'packed') return cborMap(signatureBy(own))
  const makerKey = createPrivateKey({ key: Buffer.from(MAKER_KEY, 'base64'), format: 'der', type: 'pkcs8' })
  const certificates = Buffer.concat([Buffer.from([0x81]), cborBytes(Buffer.from(MAKER_CERTIFICATE, 'base64'))])
  return cborMap([...signatureBy(makerKey), ['x5c', certificates]])
}

function cborMap(fields: readonly (readonly [string, Buffer])[]): Buffer {
  return Buffer.concat([
    Buffer.from([0xa0 + fields.length]),
    ...fields.flatMap(([name, value]) => [cborText(name), value]),
  ])
}

/** A text of at most 23 characters. */
function cborText(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x60 + text.length]), Buffer.from(text)])
}

function cborBytes(bytes: Buffer): Buffer {
  const head = Buffer.from([0x59, 0, 0])
  head.writeUInt16BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}
