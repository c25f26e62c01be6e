import { hash } from 'node:crypto'
import { NEXT_PAGES, type NextPage } from '../pages/visit.ts'
import { isSameText } from '../secrets/token.ts'
import type { Flow } from './identity.ts'

/** The purpose of a flow: a sign-in, with the page after it, or a link, which is of one session. */
export type FlowPurpose =
  | { readonly kind: 'sign_in'; readonly next: NextPage }
  | { readonly kind: 'link'; readonly sessionToken: string }

/**
 * Returns the secrets of a flow. They follow from the secret in the browser's cookie, from the provider and from what the flow is
 * for, so that an answer counts nowhere else, and none of them is stored.
 */
export function flowOf(secret: string, providerId: string, purpose: FlowPurpose): Flow {
  const place = JSON.stringify([
    providerId,
    purpose.kind,
    purpose.kind === 'link' ? purpose.sessionToken : purpose.next,
  ])
  const derive = (word: string) => hash('sha256', `${word} ${place} ${secret}`, 'base64url')
  return { state: derive('state'), nonce: derive('nonce'), verifier: derive('verifier') }
}

const SIGN_INS = (Object.keys(NEXT_PAGES) as NextPage[]).map((next): FlowPurpose => ({ kind: 'sign_in', next }))

/** Returns what the flow with this state is for, and its secrets; null when the browser began none. */
export function flowWith(
  state: string,
  secret: string | null,
  providerId: string,
  sessionToken: string | null,
): { readonly purpose: FlowPurpose; readonly flow: Flow } | null {
  if (secret === null) return null
  const links: FlowPurpose[] = sessionToken === null ? [] : [{ kind: 'link', sessionToken }]
  for (const purpose of [...links, ...SIGN_INS]) {
    const flow = flowOf(secret, providerId, purpose)
    if (isSameText(state, flow.state)) return { purpose, flow }
  }
  return null
}
