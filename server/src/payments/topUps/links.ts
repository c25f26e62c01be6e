/** The addresses of this server's own pages, and the addresses that callers want people to be sent to. */

import { z } from 'zod'
import { isLoopback } from '../../lib/loopback.ts'
import { isPlainOrigin } from '../../lib/plainOrigin.ts'

/** Of this server's own pages. They are made from the setting or the port, and never from a request's `Host`. */
export interface Links {
  /** Of a page beneath `/payments`, such as `/done`. */
  page(path: string): string
  /** Tells where the server listens, once that is known; it counts only where the settings have no public URL. */
  listensAt(url: string): void
}

/** `publicUrl` is that of the settings; `listening` is where the server is to listen. Neither has a path or a trailing slash. */
export function createLinks(publicUrl: string | null, listening: string): Links {
  let base = publicUrl ?? listening
  return {
    page: (path) => `${base}/payments${path}`,
    listensAt(url) {
      base = publicUrl ?? url
    },
  }
}

/** Returns the address of our page for a person who has paid: it says what became of the payment. */
export function donePage(links: Links, paymentId: string): string {
  return links.page(`/done?payment=${paymentId}`)
}

const URL_CHARACTERS_MAX = 2_048

/** Others can't be in a header, or would be written otherwise there. */
const PRINTABLE = /^[\x21-\x7e]+$/

/**
 * Returns whether a person may be sent to an address: https, or plain http to this machine; no user info; a plain
 * host; at most 2,048 characters of ASCII.
 */
function isReturnUrl(text: string): boolean {
  if (text.length > URL_CHARACTERS_MAX || !PRINTABLE.test(text) || !URL.canParse(text)) return false
  const { protocol, hostname, username, password, origin } = new URL(text)
  if (username !== '' || password !== '' || !isPlainOrigin(origin)) return false
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
}

/** The field of a request with the URL to which the payment page sends a person back. */
export const returnUrl = z
  .string()
  .refine(isReturnUrl, {
    error: `must be https, or http to this machine, of at most ${URL_CHARACTERS_MAX} ASCII characters without blanks`,
  })
  .optional()
