import { generate } from 'selfsigned'

/** A key and a self-signed certificate for one DNS name, as PEM. */
export async function certificateFor(name: string): Promise<{ key: string; cert: string }> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: name }] }],
  })
  return { key, cert }
}
