import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rename, rm, stat, statfs, truncate } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import { Watchdog } from '../../lib/watchdog.ts'
import { askHub, type HubFacts, PullFailure, parseSpec, toUri } from './hub.ts'

/** The downloader tries again for ever; without a byte for so long it is ended. */
const STALLED_AFTER_MS = MINUTE_MS

export interface PullOptions {
  /** `hf:OWNER/REPO/FILE.gguf` */
  readonly spec: string
  /** Where the file goes, under its own name. */
  readonly folder: string
  /** Bytes so far (what an earlier, broken-off pull left counts) and in all. */
  readonly onProgress: (receivedBytes: number, totalBytes: number) => void
  readonly clock: Clock
  /** Another hub than Hugging Face, as an origin. */
  readonly endpoints?: { readonly huggingFace: string }
  /** A token of the hub, for repositories that are not open to all. */
  readonly token?: string
  /** Breaks off; what was fetched stays for the next pull. */
  readonly signal?: AbortSignal
}

export interface Pulled {
  /** Absolute. */
  readonly file: string
  readonly sizeBytes: number
  /** 64 hex digits: of the file, and as the hub has it. */
  readonly sha256: string
}

/**
 * Fetches a GGUF file from the hub with node-llama-cpp's downloader, checks it against the hub's SHA-256, and only then
 * gives it its name. A file that is there already is checked and kept. A pull that was broken off goes on where it
 * stood. Throws {@link PullFailure}, in words for the operator.
 */
export async function pullModel(options: PullOptions): Promise<Pulled> {
  const source = parseSpec(options.spec)
  const { clock, token, signal } = options
  const facts = await askHub({ file: source, hub: options.endpoints?.huggingFace, token, clock, signal })
  const folder = resolve(options.folder)
  const file = join(folder, source.fileName)
  await mkdir(folder, { recursive: true })

  const sizeBytes = await sizeOf(file)
  if (sizeBytes !== null) {
    const sha256 = await sha256OfFile(file)
    if (sha256 !== facts.sha256) {
      throw new PullFailure(`${file} exists and is another file (SHA-256 ${sha256}): move it away, then pull again`)
    }
    options.onProgress(sizeBytes, sizeBytes)
    return { file, sizeBytes, sha256 }
  }

  await refuseFullDisk(folder, facts)
  // Not under its own name until it is checked: a server that starts meanwhile serves whatever `*.gguf` it finds.
  const staged = await download(options, toUri(source), folder, `${source.fileName}.part`)
  const sha256 = await sha256OfFile(staged)
  if (sha256 !== facts.sha256) {
    await rm(staged, { force: true })
    throw new PullFailure(
      `what came is not ${source.fileName}: its SHA-256 is ${sha256}, the hub's is ${facts.sha256}. It was removed; pull again`,
    )
  }
  await rename(staged, file)
  return { file, sizeBytes: (await stat(file)).size, sha256 }
}

async function download(options: PullOptions, modelUri: string, folder: string, fileName: string): Promise<string> {
  // Imported here because it takes a while to load, and only this command needs it in this process.
  const { createModelDownloader } = await import('node-llama-cpp')
  const stalled = new AbortController()
  const stall = new PullFailure('the download stands still: pull again to go on where it stopped')
  const watchdog = new Watchdog(options.clock, () => stalled.abort(stall))
  const rearm = () => watchdog.due(options.clock.monotonicMs() + STALLED_AFTER_MS)
  const signal = options.signal === undefined ? stalled.signal : AbortSignal.any([stalled.signal, options.signal])
  let receivedBytes = -1
  rearm()
  try {
    const opening = createModelDownloader({
      modelUri,
      dirPath: folder,
      fileName,
      showCliProgress: false,
      deleteTempFileOnCancel: false,
      ...(options.token === undefined ? {} : { tokens: { huggingFace: options.token } }),
      ...(options.endpoints === undefined ? {} : { endpoints: options.endpoints }),
      onProgress: ({ totalSize, downloadedSize }) => {
        if (downloadedSize !== receivedBytes) rearm()
        receivedBytes = downloadedSize
        options.onProgress(downloadedSize, totalSize)
      },
    })
    const downloader = await unlessAborted(opening, signal)
    try {
      const staged = await unlessAborted(downloader.download(), signal)
      await cutNotes(staged, downloader.totalSize)
      return staged
    } finally {
      // Writes down how far it came. After a whole download there is nothing to do.
      if (signal.aborted) await downloader.cancel({ deleteTempFile: false })
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw new PullFailure(`the download failed (${wordsOf(error)}): pull again to go on where it stopped`)
  } finally {
    watchdog.stop()
  }
}

/**
 * The downloader keeps notes on its progress behind the file's end and cuts them off when it is done, but a last note may
 * still be on its way then.
 */
async function cutNotes(file: string, sizeBytes: number): Promise<void> {
  const { size } = await stat(file)
  if (size > sizeBytes) await truncate(file, sizeBytes)
}

/** The downloader does not look at the signal while it opens a connection or waits to try again. */
async function unlessAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  let abort = () => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
    work.catch(() => {})
  }
}

async function refuseFullDisk(folder: string, { sizeBytes }: HubFacts): Promise<void> {
  if (sizeBytes === null) return
  const { bavail, bsize } = await statfs(folder)
  if (bavail * bsize < sizeBytes) {
    const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1)
    throw new PullFailure(`${folder} has ${gigabytes(bavail * bsize)} GB free; the file has ${gigabytes(sizeBytes)} GB`)
  }
}

async function sizeOf(file: string): Promise<number | null> {
  return stat(file).then(
    (found) => found.size,
    () => null,
  )
}

async function sha256OfFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(bytes)
  return hash.digest('hex')
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 200) : 'for no reason given'
}
