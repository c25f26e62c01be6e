import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { S3Place } from '../src/io/artifacts/s3.ts'
import { Secret } from '../src/kernel/secret.ts'

interface S3Server {
  run(): Promise<{ readonly port: number }>
  close(): Promise<void>
}

// It brings no types.
const require = createRequire(import.meta.url)
const S3rver: new (options: object) => S3Server = require('s3rver')

const BUCKET = 'artifacts'
const CREDENTIAL = 'S3RVER'

/** A real S3-compatible server in this process, with one bucket. Call `close` at the end. */
export async function openS3(): Promise<{ readonly place: S3Place; close(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 's3-'))
  const configureBuckets = [{ name: BUCKET, configs: [] }]
  const server = new S3rver({ port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets })
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
