import { lookup } from 'node:dns/promises'

/** Every address that the machine knows for a name, in the order of the answer. Rejects when there is none. */
export type Resolve = (name: string) => Promise<readonly string[]>

/** By the machine's own resolver: its hosts file, then DNS. Has no deadline of its own. */
export const systemResolve: Resolve = async (name) => {
  const found = await lookup(name, { all: true, verbatim: true })
  return found.map(({ address }) => address)
}
