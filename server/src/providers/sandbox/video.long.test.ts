/** The sandbox's clips play to their end in a real browser, and ffprobe agrees on their length. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { probeSeconds } from '../../../test/clip.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { wholeOf } from '../../../test/jobServer.ts'
import { SILENCE } from '../../../test/silence.ts'
import { createClipWork } from './clipWork.ts'
import { sandboxVideo } from './video.ts'

const PAGE = `<!doctype html><video muted preload="auto" src="/clip.mp4"></video><script>
const video = document.querySelector('video')
const tell = (how) => fetch('/told', { method: 'POST', body: JSON.stringify({
  how, seconds: video.duration, at: video.currentTime, width: video.videoWidth, height: video.videoHeight,
  error: video.error && video.error.message,
}) })
video.onended = () => tell('ended')
video.onerror = () => tell('failed')
video.play().catch((error) => tell(String(error)))
</script>`

const clips = createClipWork(SILENCE)
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sandbox-plays-'))
})
afterAll(async () => {
  await clips.close()
  await rm(directory, { recursive: true, force: true })
})

async function play(clip: Uint8Array): Promise<Record<string, unknown>> {
  const told = Promise.withResolvers<Record<string, unknown>>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname } = new URL(request.url)
      if (pathname === '/told') told.resolve((await request.json()) as Record<string, unknown>)
      if (pathname === '/clip.mp4')
        return new Response(new Uint8Array(clip), { headers: { 'content-type': 'video/mp4' } })
      return new Response(PAGE, { headers: { 'content-type': 'text/html' } })
    },
  })
  const words = ['--headless', '--no-sandbox', '--disable-gpu', '--autoplay-policy=no-user-gesture-required']
  const browser = Bun.spawn(
    ['chromium', ...words, `--user-data-dir=${join(directory, 'profile')}`, `http://127.0.0.1:${server.port}/`],
    { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' },
  )
  try {
    return await told.promise
  } finally {
    browser.kill()
    await browser.exited
    await server.stop(true)
  }
}

test.each([
  [1, null, 640, 360],
  [3, { width: 320, height: 180 }, 320, 180],
] as const)(
  'a clip of %d s plays',
  async (seconds, size, width, height) => {
    const settings = { firstTokenMs: 0, tokensPerSecond: null, replyTokens: null, videoSecondsPerSecond: null }
    const work = sandboxVideo(settings, new TurnedClock(), clips)
    const { signal } = new AbortController()
    const call = { model: 'm', prompt: 'a toll gate at dawn', seconds, size, attemptId: `a${seconds}` }
    const clip = await wholeOf(await work.download(await work.submit(call, signal, 0), signal, 0))
    const path = join(directory, `${seconds}.mp4`)
    await writeFile(path, clip)
    expect(Math.abs((await probeSeconds(path)) - seconds)).toBeLessThan(0.05)
    const told = await play(clip)
    expect(told).toMatchObject({ how: 'ended', error: null, width, height })
    expect(Math.abs(Number(told['seconds']) - seconds)).toBeLessThan(0.05)
  },
  60_000,
)
