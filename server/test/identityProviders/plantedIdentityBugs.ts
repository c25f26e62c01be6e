/** Bugs as people make them at sign-in by identity providers, each some exchanges in files of `server/src/identity/accounts`. */

import type { PlantedExchange } from '../plantedCopy.ts'

export interface PlantedIdentityBug {
  readonly name: string
  /** More than one where one alone is caught by the code itself. */
  readonly exchanges: readonly [PlantedExchange, ...PlantedExchange[]]
  /** The test file that must find it, in `identityProviders/`, and a part of the name of one test there that must fail. */
  readonly found: readonly [file: 'gateway' | 'forged', test: string]
}

const [OIDC, GITHUB, FLOW, LINK, HTTP] = ['oidc', 'github', 'flow', 'link', 'http'].map(
  (name) => `identityProviders/${name}.ts`,
) as [string, string, string, string, string]

/** Reads the claims of the ID token before anybody has checked them. */
const READ_CLAIMS: PlantedExchange = {
  file: OIDC,
  search: '  const tokens = await oauth.processAuthorizationCodeResponse(server,',
  replace: `  const { id_token: idToken } = (await response.clone().json()) as { id_token: string }
  const unchecked = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString())
  const tokens = await oauth.processAuthorizationCodeResponse(server,`,
}

/** The same, with something of the claims in place of what is expected. */
const trusting = (expected: string, claims: string): [PlantedExchange] => [
  { ...READ_CLAIMS, replace: READ_CLAIMS.replace.replace(expected, () => claims) },
]

const NOT_LINKED = 'signs nobody in whose account is not linked'
const ANOTHER_SESSION = 'has no answer to a sign-in taken for a link, nor one of another session'
const WITHOUT_SESSION = 'if (session === null) return redirect('

export const PLANTED_IDENTITY_BUGS: readonly PlantedIdentityBug[] = [
  {
    name: 'the state of an answer is not checked',
    exchanges: [
      { file: FLOW, search: 'if (isSameText(state, flow.state)) return', replace: 'return' },
      { file: OIDC, search: 'answer, flow.state)', replace: 'answer, oauth.skipStateCheck)' },
    ],
    found: ['gateway', 'has its answer taken once, and in the browser that asked alone'],
  },
  {
    name: 'the state is the same for all flows',
    exchanges: [{ file: FLOW, search: "state: derive('state')", replace: "state: 'x'.repeat(43)" }],
    found: ['gateway', 'asks with PKCE and a state of its own'],
  },
  {
    name: 'the cookie of a flow stays after its answer',
    exchanges: [
      { file: 'pages/browser.ts', search: "setCookie(cookies.flow, '', 0,", replace: "setCookie('nothing', '', 0," },
    ],
    found: ['gateway', 'is linked by a session, and signs in then'],
  },
  {
    name: 'an answer to one provider counts at another',
    exchanges: [{ file: FLOW, search: '    providerId,\n    purpose.kind,', replace: '    purpose.kind,' }],
    found: ['forged', 'an answer of one provider is none of another'],
  },
  {
    name: 'the nonce of the ID token is not checked',
    exchanges: [
      READ_CLAIMS,
      { file: OIDC, search: 'expectedNonce: nonce', replace: 'expectedNonce: unchecked.nonce ?? oauth.expectNoNonce' },
    ],
    found: ['forged', 'by an ID token with the nonce of another flow does not'],
  },
  {
    name: 'the issuer of the ID token is not checked',
    exchanges: trusting('Response(server,', 'Response({ ...server, issuer: unchecked.iss },'),
    found: ['forged', 'by an ID token with another issuer does not'],
  },
  {
    name: 'the issuer of the answer is not checked',
    exchanges: [
      {
        file: OIDC,
        search: 'oauth.validateAuthResponse(server, client, answer,',
        replace: 'oauth.validateAuthResponse({ ...server, issuer: answer.get("iss") ?? issuer }, client, answer,',
      },
    ],
    found: ['gateway', 'an answer of another issuer is refused'],
  },
  {
    name: 'the audience of the ID token is not checked',
    exchanges: [
      READ_CLAIMS,
      {
        file: OIDC,
        search: 'server, client, response, {',
        replace: 'server, { client_id: unchecked.aud }, response, {',
      },
    ],
    found: ['forged', 'by an ID token with another audience does not'],
  },
  {
    name: 'the signature of the ID token is not checked',
    exchanges: [
      {
        file: OIDC,
        search: '  await oauth.validateApplicationLevelSignature(server, response, exchange)\n',
        replace: '',
      },
    ],
    found: ['forged', 'by an ID token with the signature of another key does not'],
  },
  {
    name: 'the verifier of PKCE is the same for all flows',
    exchanges: [{ file: FLOW, search: "verifier: derive('verifier')", replace: "verifier: 'x'.repeat(43)" }],
    found: ['gateway', 'has a code of another flow refused, by PKCE'],
  },
  {
    name: 'an address of which email_verified is a text counts as verified',
    exchanges: [{ file: OIDC, search: 'isVerified === true &&', replace: 'Boolean(isVerified) &&' }],
    found: ['forged', 'an address of which email_verified is the text "false" links nothing'],
  },
  {
    name: 'an address that the provider has not verified counts',
    exchanges: [{ file: OIDC, search: 'isVerified === true && ', replace: '' }],
    found: ['gateway', 'company > is linked only where the address of the account is verified there'],
  },
  {
    name: 'an address that GitHub has not verified counts',
    exchanges: [{ file: GITHUB, search: '.filter(({ verified }) => verified)', replace: '' }],
    found: ['gateway', 'github > is linked only where the address of the account is verified there'],
  },
  {
    name: 'an identity is linked whatever its address',
    exchanges: [
      {
        file: LINK,
        search: '  if (!identity.verifiedEmails.includes(person.email)) return',
        replace: '  if (false) return',
      },
    ],
    found: ['gateway', 'is linked only where the address of the account is verified there'],
  },
  {
    name: 'a sign-in finds the person by the address at the provider',
    exchanges: [
      { file: HTTP, search: "redirectUri, purpose.kind === 'link')", replace: 'redirectUri, true)' },
      {
        file: 'identityProviders/signIn.ts',
        search: 'const userId = await updateIdentityUse(tx, identity, clock.now())',
        replace: `const email = (identity as { verifiedEmails?: string[] }).verifiedEmails?.at(-1) ?? ''
    const [byEmail] = await tx.query<{ id: string }>('select id from users where email = $1', [email])
    const userId = (await updateIdentityUse(tx, identity, clock.now())) ?? byEmail?.id ?? null`,
      },
    ],
    found: ['gateway', NOT_LINKED],
  },
  {
    name: 'a person is found by the subject alone',
    exchanges: [
      {
        file: 'identityProviders/store.ts',
        search: 'where issuer = $1 and subject = $2',
        replace: 'where $1 <> $2 and subject = $2',
      },
    ],
    found: ['forged', 'an answer of one provider is none of another, and so is its subject'],
  },
  {
    name: 'the flow of a link counts in another session',
    exchanges: [
      {
        file: FLOW,
        search: "purpose.kind === 'link' ? purpose.sessionToken : purpose.next",
        replace: "purpose.kind === 'link' ? '' : purpose.next",
      },
    ],
    found: ['gateway', ANOTHER_SESSION],
  },
  {
    name: 'an identity is linked without a session, to the person of its address',
    exchanges: [
      {
        file: FLOW,
        search: "purpose.kind === 'link' ? purpose.sessionToken : purpose.next",
        replace: "purpose.kind === 'link' ? '' : purpose.next",
      },
      { file: FLOW, search: 'sessionToken === null ? [] : [', replace: 'false ? [] : [' },
      {
        file: FLOW,
        search: "{ kind: 'link', sessionToken }",
        replace: "{ kind: 'link', sessionToken: sessionToken ?? '' }",
      },
      {
        file: HTTP,
        search: WITHOUT_SESSION,
        replace: `if (session === null) {
    const found = await dependencies.database.query<{ id: string; email: string }>('select id, email, name from users')
    const person = found.find(({ email }) => identity.verifiedEmails.includes(email))
    if (person) await linkIdentity(dependencies, { person: person as never, address: visit.address }, provider, identity)
  }
  ${WITHOUT_SESSION}`,
      },
    ],
    found: ['gateway', ANOTHER_SESSION],
  },
  {
    name: 'an old session links',
    exchanges: [{ file: HTTP, search: '    isRecent(session, dependencies.clock.now())\n', replace: '    true\n' }],
    found: ['gateway', 'a session that began more than ten minutes ago links nothing'],
  },
]
