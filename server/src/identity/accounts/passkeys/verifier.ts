import type { RegistrationAnswer, SignInAnswer } from './answer.ts'
import { fromBase64Url, toBase64Url } from './answer.ts'
import { ALGORITHMS, type RelyingParty } from './options.ts'
import type { PasskeyCredential } from './passkey.ts'

/** Verifies the answers of devices: the challenge, the origin of the page, the server's name, the user's presence, the signature. */
export interface PasskeyVerifier {
  /** Returns the new passkey; null when the answer is not a good one. */
  registration(
    party: RelyingParty,
    answer: RegistrationAnswer,
    challenge: Uint8Array,
  ): Promise<PasskeyCredential | null>
  /** Returns the device's count of signatures; null when the answer is not a good one. */
  signIn(
    party: RelyingParty,
    answer: SignInAnswer,
    challenge: Uint8Array,
    known: PasskeyCredential,
  ): Promise<number | null>
}

/** Opens the package. It is loaded here, so that whoever has no passkeys does not wait for it. */
export async function openPasskeyVerifier(): Promise<PasskeyVerifier> {
  const { verifyAuthenticationResponse, verifyRegistrationResponse } = await import('@simplewebauthn/server')
  const { decodeAttestationObject, isoBase64URL } = await import('@simplewebauthn/server/helpers')
  /**
   * Returns whether an answer is of a form that browsers send where no attestation was asked for: none, or a signature by the new key
   * itself. The package would fetch the lists of revoked certificates that certificates name, from any address.
   */
  const hasNoCertificate = ({ response }: RegistrationAnswer) => {
    const attestation = decodeAttestationObject(isoBase64URL.toBuffer(response.attestationObject))
    const format = attestation.get('fmt')
    return format === 'none' || (format === 'packed' && attestation.get('attStmt').get('x5c') === undefined)
  }
  return {
    registration: (party, answer, challenge) =>
      unlessBad(async () => {
        if (!hasNoCertificate(answer)) return null
        const { id, response } = answer
        const { verified, registrationInfo } = await verifyRegistrationResponse({
          response: { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response },
          ...expected(party, challenge),
          supportedAlgorithmIDs: ALGORITHMS,
        })
        if (!verified) return null
        const { credential } = registrationInfo
        return {
          credentialId: fromBase64Url(credential.id),
          publicKey: credential.publicKey,
          signCount: credential.counter,
        }
      }),
    signIn: (party, { id, response }, challenge, known) =>
      unlessBad(async () => {
        const { clientDataJSON, authenticatorData, signature } = response
        const { verified, authenticationInfo } = await verifyAuthenticationResponse({
          response: {
            id,
            rawId: id,
            type: 'public-key',
            clientExtensionResults: {},
            response: { clientDataJSON, authenticatorData, signature },
          },
          ...expected(party, challenge),
          credential: {
            id: toBase64Url(known.credentialId),
            publicKey: new Uint8Array(known.publicKey),
            counter: known.signCount,
          },
        })
        return verified ? authenticationInfo.newCounter : null
      }),
  }
}

function expected({ id, origin }: RelyingParty, challenge: Uint8Array) {
  return {
    expectedChallenge: toBase64Url(challenge),
    expectedOrigin: origin,
    expectedRPID: id,
    requireUserVerification: true,
  }
}

/** The package throws where an answer is not a good one. It works on what it is given alone, so that nothing else fails in it. */
async function unlessBad<T>(verify: () => Promise<T | null>): Promise<T | null> {
  try {
    return await verify()
  } catch {
    return null
  }
}
