/** Every address that the machine knows for a name, in the order of the answer. Rejects when there is none. */
export type Resolve = (name: string) => Promise<readonly string[]>

/**
 * By the machine's hosts file, then DNS. Has no deadline of its own. Not by `getaddrinfo`, which holds one of a few threads
 * until it has an answer: two names whose servers are silent would keep all others waiting.
 */
export const systemResolve: Resolve = async (name) => {
  const found = await Bun.dns.lookup(name, { backend: 'c-ares' })
  return found.map(({ address }) => address)
}
