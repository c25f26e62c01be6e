/** Hosts of letters, digits, dots, hyphens and underscores, and addresses of IPv6: none of them means anything in a header. */
const PLAIN = /^https?:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/

/**
 * Returns whether an origin, as `new URL(…).origin` writes it, can be a part of a header such as
 * Content-Security-Policy as it stands. A URL's host may have `;`, `,` or quotes, which would begin another
 * directive there.
 */
export function isPlainOrigin(origin: string): boolean {
  return PLAIN.test(origin)
}
