/** Turns clips of other forms into mp4, in a process of its own: ffmpeg reads what nobody here has looked at. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../lib/time.ts'

/**
 * The forms that a clip may come in: the names of ffmpeg's readers. With one named, no file can pass itself off as a
 * playlist.
 */
export type ClipForm = 'matroska' | 'avi'

export interface Transcoding {
  /** The path of ffmpeg. */
  readonly program: string
  readonly form: ClipForm
  /** Of the mp4. */
  readonly bytesMost: number
  /** For all of it; then it is ended. */
  readonly timeMostMs: number
  readonly signal: AbortSignal
  readonly clock: Clock
}

/** Why there is no mp4: `input` where the clip is the cause, `time`, `size`. */
export class TranscodingFailed extends Error {
  readonly reason: 'input' | 'time' | 'size'

  constructor(reason: 'input' | 'time' | 'size', detail: string) {
    super(detail)
    this.name = 'TranscodingFailed'
    this.reason = reason
  }
}

/** The beginning of the names of our folders. */
const LEFT = 'tollgate-clip-'

/**
 * Removes the folders that processes that were killed left in the system's temporary folder, begun more than `ageMs`
 * ago: each may have gigabytes. Files of others stay. The age is told by the clock that dates the files, which need
 * not be the database's.
 */
export async function removeLeftClips(ageMs: number): Promise<void> {
  const youngest = await mkdtemp(join(tmpdir(), LEFT))
  const untilMs = (await stat(youngest)).mtimeMs - ageMs
  await rm(youngest, { recursive: true })
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(LEFT)) continue
    const path = join(tmpdir(), name)
    const found = await stat(path).catch(() => null)
    if (found !== null && found.mtimeMs < untilMs) await rm(path, { recursive: true, force: true }).catch(() => {})
  }
}

const PIECE_BYTES = 256 << 10
/** ffmpeg ends a file short of the bound that it is given, and says nothing of it. */
const SHORT_OF_BOUND_BYTES = 1 << 20

/**
 * The clip as an mp4 (H.264, its index in front), in pieces. Nothing of it is in memory as a whole: the mp4 is a file in the
 * system's folder for such, removed when the pieces are taken, or no more are. Throws {@link TranscodingFailed}, the signal's
 * reason, and what the clip's pieces throw.
 */
export async function* toMp4(
  clip: AsyncIterable<Uint8Array>,
  options: Transcoding,
): AsyncGenerator<Uint8Array, void, undefined> {
  const directory = await mkdtemp(join(tmpdir(), LEFT))
  try {
    const path = join(directory, 'clip.mp4')
    await transcode(clip, path, options)
    yield* piecesOf(path)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function transcode(clip: AsyncIterable<Uint8Array>, path: string, options: Transcoding): Promise<void> {
  const { program, signal, clock, timeMostMs, bytesMost } = options
  signal.throwIfAborted()
  // Without our environment, which holds credentials.
  const child = spawn(program, wordsFor(path, options), { stdio: ['pipe', 'ignore', 'ignore'], env: {} })
  let isLate = false
  const kill = () => void child.kill('SIGKILL')
  const disarm = clock.after(timeMostMs, () => {
    isLate = true
    kill()
  })
  signal.addEventListener('abort', kill, { once: true })
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null))
    child.once('exit', (code) => resolve(code))
  })
  try {
    await feed(child, clip, ended)
    const code = await ended
    signal.throwIfAborted()
    if (isLate) throw new TranscodingFailed('time', `ffmpeg took more than ${timeMostMs / 1_000} s`)
    if (code !== 0) throw new TranscodingFailed('input', `ffmpeg ended with ${code ?? 'a signal'}`)
    const { size } = await stat(path)
    if (size > bytesMost - SHORT_OF_BOUND_BYTES) throw new TranscodingFailed('size', 'the mp4 is too large')
  } finally {
    kill()
    await ended
    disarm()
    signal.removeEventListener('abort', kill)
  }
}

function wordsFor(path: string, { form, bytesMost }: Transcoding): string[] {
  const reading = ['-protocol_whitelist', 'pipe', '-f', form, '-i', 'pipe:0', '-map', '0:v:0', '-map', '0:a:0?']
  // Players want sides that are even, and colours in this form.
  const picture = ['-vf', 'scale=trunc(iw/2)*2:trunc(ih/2)*2', '-c:v', 'libx264', '-preset', 'veryfast', '-crf', '18']
  const form420 = ['-pix_fmt', 'yuv420p', '-c:a', 'aac', '-movflags', '+faststart', '-fs', String(bytesMost)]
  return ['-hide_banner', '-loglevel', 'quiet', '-nostats', ...reading, ...picture, ...form420, '-f', 'mp4', '-y', path]
}

/** Writes the clip as fast as the child reads. One that ends early has its reason, which its exit tells. */
async function feed(child: ChildProcess, clip: AsyncIterable<Uint8Array>, ended: Promise<unknown>): Promise<void> {
  const { stdin } = child
  if (stdin === null) return
  let isOver = false
  stdin.on('error', () => {
    isOver = true
  })
  void ended.then(() => {
    isOver = true
  })
  for await (const piece of clip) {
    if (isOver) return
    if (stdin.write(piece)) continue
    await Promise.race([once(stdin, 'drain').catch(() => {}), ended])
  }
  stdin.end()
}

async function* piecesOf(path: string): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await open(path, 'r')
  try {
    for (;;) {
      const piece = new Uint8Array(PIECE_BYTES)
      const { bytesRead } = await file.read(piece, 0, piece.byteLength, null)
      if (bytesRead === 0) return
      yield piece.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}
