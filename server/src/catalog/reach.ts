/** The rules for where people reach the server: they hold the file's own settings against each other and against the server's address. */

import { isIP } from 'node:net'
import { isLoopback } from '../lib/loopback.ts'
import type { Report } from './document.ts'
import type { FixedSettings } from './settings.ts'

/** Reports a `public_url` that is missing or that does not suit payments or accounts. `host`: the address that the server listens on. */
export function checkReach(
  { payments, accounts, publicUrl }: Pick<FixedSettings, 'payments' | 'accounts' | 'publicUrl'>,
  host: string,
  report: Report,
): void {
  const path = ['public_url']
  if ((payments !== null || accounts !== null) && publicUrl === null && !isLoopback(host)) report(path, NO_PUBLIC_URL)
  if (accounts !== null && publicUrl !== null && !isSafeForCookies(publicUrl)) report(path, OPEN_COOKIES)
  if (accounts?.passkeys && !isNamed(publicUrl, host)) report(path, NO_NAME)
}

const NO_PUBLIC_URL =
  "is missing: with 'payments' or 'accounts' and an address that others reach, it must say where people reach this server, such as https://gateway.example.com"

const OPEN_COOKIES =
  "must be https with 'accounts', or http to this machine: passwords and cookies must not travel in the open"

const NO_NAME =
  "must have a host name and no address with 'accounts.passkeys', such as https://gateway.example.com or http://localhost:8080: browsers make passkeys for names alone"

function isNamed(publicUrl: string | null, host: string): boolean {
  const name = publicUrl === null ? host : new URL(publicUrl).hostname
  return isIP(name.replace(/^\[|\]$/g, '')) === 0
}

function isSafeForCookies(publicUrl: string): boolean {
  const { protocol, hostname } = new URL(publicUrl)
  return protocol === 'https:' || isLoopback(hostname)
}
