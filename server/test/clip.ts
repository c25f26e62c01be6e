/** Clips that ffmpeg makes, and what ffprobe says of clips. */

import { join } from 'node:path'

let made = 0

/** Makes a file by ffmpeg's own words (its inputs and codecs, separated by spaces); answers its path. */
export async function makeClip(directory: string, words: string): Promise<string> {
  made += 1
  const path = join(directory, `made${made}.mp4`)
  await run(['ffmpeg', '-hide_banner', '-v', 'error', '-y', ...words.split(' '), path])
  return path
}

/** The length of the picture, in seconds. */
export async function probeSeconds(path: string): Promise<number> {
  const entries = ['-select_streams', 'v:0', '-show_entries', 'stream=duration:format=duration']
  const text = await run(['ffprobe', '-v', 'error', ...entries, '-of', 'json', path])
  const { streams, format } = JSON.parse(text)
  return Number(streams[0].duration ?? format.duration)
}

async function run(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [text, said, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`${command[0]}: ${said}`)
  return text
}
