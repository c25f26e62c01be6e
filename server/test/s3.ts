import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { S3Place } from '../src/infra/artifacts/s3.ts'
import { Secret } from '../src/lib/secret.ts'

type Content = Buffer | AsyncIterable<Buffer>

/** The part of the package's store that writes. */
interface S3Store {
  getResourcePath(bucket: string, key: string | undefined, resource: string): string
  putMetadata(bucket: string, key: string, metadata: object, md5: string): Promise<void>
  putObject(object: { bucket: string; key: string; content: Content; metadata: object }): Promise<Written>
  putPart(bucket: string, uploadId: string, partNumber: number, content: Content): Promise<Written>
}

interface Written {
  readonly size: number
  readonly md5: string
}

interface S3Server {
  readonly store: S3Store
  run(): Promise<{ readonly port: number }>
  close(): Promise<void>
}

// It brings no types.
const require = createRequire(import.meta.url)
const S3rver: new (options: object) => S3Server = require('s3rver')

const BUCKET = 'artifacts'
const CREDENTIAL = 'S3RVER'

/** The package answers as soon as it has read a body, and its file may be written later: under load a read finds a part of it. */
function writeBeforeAnswering(store: S3Store): void {
  store.putObject = async ({ bucket, key, content, metadata }) => {
    const written = await write(store.getResourcePath(bucket, key, 'object'), content)
    await store.putMetadata(bucket, key, metadata, written.md5)
    return written
  }
  store.putPart = async (bucket, uploadId, partNumber, content) => {
    const path = join(store.getResourcePath(bucket, undefined, 'uploads'), uploadId, String(partNumber))
    const written = await write(path, content)
    await writeFile(`${path}.md5`, written.md5)
    return written
  }
}

/** Returns once the file is written whole. */
async function write(path: string, content: Content): Promise<Written> {
  await mkdir(dirname(path), { recursive: true })
  const hash = createHash('md5')
  let size = 0
  async function* counted() {
    for await (const chunk of Buffer.isBuffer(content) ? [content] : content) {
      hash.update(chunk)
      size += chunk.length
      yield chunk
    }
  }
  await pipeline(counted(), createWriteStream(path))
  return { size, md5: hash.digest('hex') }
}

/** A real S3-compatible server in this process, with one bucket. Call `close` at the end. */
export async function openS3(): Promise<{ readonly place: S3Place; close(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 's3-'))
  const configureBuckets = [{ name: BUCKET, configs: [] }]
  const server = new S3rver({ port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets })
  writeBeforeAnswering(server.store)
  const { port } = await server.run()
  return {
    place: {
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      bucket: BUCKET,
      prefix: 'tests/',
      virtualHosted: false,
      accessKeyId: new Secret(CREDENTIAL),
      secretAccessKey: new Secret(CREDENTIAL),
    },
    async close() {
      await server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
