import { readFile } from 'node:fs/promises'
import { rootCertificates } from 'node:tls'

/**
 * The certificates of the authorities that a client trusts: the public ones, and those of a PEM file. Rejects with one
 * sentence for the operator where the file can't be read or holds none.
 */
export async function readAuthorities(caFile: string): Promise<readonly string[]> {
  const text = await readFile(caFile, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${caFile}: can't be read (${error.code}): is it a file that this user may read?`)
  })
  const own = text.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g)
  if (own === null) throw new Error(`${caFile}: holds no certificate in PEM form; put the authority's there`)
  return [...rootCertificates, ...own]
}
