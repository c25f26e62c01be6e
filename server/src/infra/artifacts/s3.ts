import type { Secret } from '../../lib/secret.ts'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import { type Artifacts, ArtifactTooLarge, checkArtifactName } from '../artifacts.ts'

/** A bucket of an S3-compatible store. */
export interface S3Place {
  /** With its scheme, without the bucket and without a trailing slash. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  /** The beginning of the names of all our files; empty, or ending in a slash. */
  readonly prefix: string
  readonly accessKeyId: Secret
  readonly secretAccessKey: Secret
  /** The bucket is part of the host's name, not of the path. */
  readonly virtualHosted: boolean
}

/** Of an upload: at most 10,000 parts, so 80 GiB; two of them are under way, and in memory. */
const PART_BYTES = 8 << 20
const PARTS_AT_ONCE = 2
const RETRIES = 3
/** Of one request of a download: so much is in memory for each. */
const PIECE_BYTES = 1 << 20
/** A store that moves nothing for so long is away. */
const SILENCE_MS = MINUTE_MS
/** The most that a store lists at once. */
const LIST_NAMES = 1_000

/** The store did not answer in time. */
class S3Silent extends Error {
  constructor() {
    super(
      `the S3 store did nothing for ${SILENCE_MS / 1_000} s: is its endpoint the right one, and reachable from here?`,
    )
    this.name = 'S3Silent'
  }
}

/**
 * Files beneath a prefix of a bucket. A file appears when its last byte is there; an upload that breaks off is taken back.
 * One that dies with the process leaves parts that only the store sees: have its bucket end unfinished uploads after a day.
 */
export function openS3Artifacts(place: S3Place, area: string, clock: Clock): Artifacts {
  const prefix = `${place.prefix}${area}/`
  const client = new Bun.S3Client({
    endpoint: place.endpoint,
    region: place.region,
    bucket: place.bucket,
    accessKeyId: place.accessKeyId.reveal(),
    secretAccessKey: place.secretAccessKey.reveal(),
    virtualHostedStyle: place.virtualHosted,
  })
  const keyOf = (name: string) => `${prefix}${checkArtifactName(name)}`
  const fetchPiece = (key: string, first: number, last: number) => {
    const end = Math.min(last + 1, first + PIECE_BYTES)
    return inTime(clock, client.file(key).slice(first, end).bytes())
  }
  return {
    write: (name, pieces, bytesMost) => upload(client, keyOf(name), pieces, bytesMost, clock),
    size: (name) => inTime(clock, client.stat(keyOf(name))).then(({ size }) => size, absentAs(null)),
    async read(name, first, last) {
      const key = keyOf(name)
      const piece = await fetchPiece(key, first, last).catch(absentAs(null))
      return piece && streamOf(piece, first, last, (from) => fetchPiece(key, from, last))
    },
    remove: (name) => inTime(clock, client.delete(keyOf(name))).catch(absentAs(undefined)),
    async *list(untilMs) {
      let continuationToken: string | undefined
      do {
        const page = { prefix, maxKeys: LIST_NAMES, ...(continuationToken !== undefined && { continuationToken }) }
        const found: Bun.S3ListObjectsResponse = await inTime(clock, client.list(page))
        for (const { key, lastModified } of found.contents ?? []) {
          const name = key.slice(prefix.length)
          if (!name.includes('/') && Date.parse(lastModified ?? '') < untilMs) yield name
        }
        continuationToken = found.isTruncated === true ? found.nextContinuationToken : undefined
      } while (continuationToken !== undefined)
    },
  }
}

/** Sends the pieces as the store takes them. */
async function upload(
  client: Bun.S3Client,
  key: string,
  pieces: AsyncIterable<Uint8Array>,
  bytesMost: number,
  clock: Clock,
): Promise<{ bytes: number }> {
  const source = pieces[Symbol.asyncIterator]()
  const silence = Promise.withResolvers<never>()
  // Nobody may be waiting for it any more when it comes.
  silence.promise.catch(() => {})
  let failure: { readonly reason: unknown } | null = null
  let isGivenUp = false
  let bytes = 0
  const arm = () => clock.after(SILENCE_MS, () => silence.reject(new S3Silent()))
  let disarm = arm()
  // An error of the body is what makes the client take the upload back.
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        disarm()
        try {
          // The client goes on with what it had under way, and would make a whole file of a part that ends here.
          if (isGivenUp) throw new S3Silent()
          const next = await source.next()
          if (next.done === true) controller.close()
          else {
            bytes += next.value.byteLength
            if (bytes > bytesMost) throw new ArtifactTooLarge(bytesMost)
            controller.enqueue(next.value)
          }
        } catch (error) {
          failure ??= { reason: error }
          controller.error(error)
        }
        if (!isGivenUp) disarm = arm()
      },
    },
    { highWaterMark: 0 },
  )
  const options = { partSize: PART_BYTES, queueSize: PARTS_AT_ONCE, retry: RETRIES, type: 'application/octet-stream' }
  try {
    await Promise.race([client.write(key, new Response(body), options), silence.promise])
    return { bytes }
  } catch (error) {
    isGivenUp = true
    throw reasonOf(failure) ?? error
  } finally {
    disarm()
    await source.return?.()
  }
}

/** Set in a callback, where the compiler does not see it. */
function reasonOf(failure: { readonly reason: unknown } | null): unknown {
  return failure?.reason
}

function streamOf(
  piece: Uint8Array,
  first: number,
  last: number,
  fetchFrom: (from: number) => Promise<Uint8Array>,
): ReadableStream<Uint8Array> {
  let next: Uint8Array | null = piece
  let at = first
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const bytes = next ?? (await fetchFrom(at))
          next = null
          at += bytes.byteLength
          if (bytes.byteLength > 0) controller.enqueue(bytes)
          if (bytes.byteLength === 0 || at > last) controller.close()
        } catch (error) {
          controller.error(error)
        }
      },
    },
    { highWaterMark: 0 },
  )
}

/** The client has no deadline of its own. */
async function inTime<T>(clock: Clock, work: Promise<T>): Promise<T> {
  const silence = Promise.withResolvers<never>()
  const disarm = clock.after(SILENCE_MS, () => silence.reject(new S3Silent()))
  try {
    return await Promise.race([work, silence.promise])
  } finally {
    disarm()
  }
}

function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof Error && 'code' in error && error.code === 'NoSuchKey') return value
    throw error
  }
}
