/** The files that the provider sends for videos: real clips of many makes, and what is none. */

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeClip } from '../clip.ts'

const H264 = '-c:v libx264 -preset ultrafast -pix_fmt yuv420p'
const picture = (seconds: number, rate = '10') => `-f lavfi -i testsrc=s=64x64:r=${rate}:d=${seconds}`

/** By ffmpeg's own words. */
const WORDS = {
  blink: `${picture(0.4)} ${H264}`,
  second: `${picture(1)} ${H264}`,
  down: `${picture(2.4)} ${H264}`,
  /** Right between two seconds. */
  tie: `${picture(2.5)} ${H264}`,
  up: `${picture(2.6)} ${H264} -movflags faststart`,
  four: `${picture(4)} ${H264}`,
  odd: `${picture(3, '30000/1001')} ${H264}`,
  /** With B-frames and an edit list: pictures are stored in another order than they are shown in. */
  reordered: `${picture(5.2, '25')} -c:v libx264 -bf 3 -pix_fmt yuv420p`,
  fragments: `${picture(3.3)} ${H264} -g 5 -movflags frag_keyframe+empty_moov`,
  /** The sound goes on behind the picture. */
  sound: `${picture(2)} -f lavfi -i sine=d=6 ${H264} -c:a aac`,
  long: `${picture(11.7)} ${H264}`,
} as const

export const GOOD_CLIPS = [
  'blink',
  'second',
  'down',
  'tie',
  'up',
  'four',
  'odd',
  'reordered',
  'fragments',
  'sound',
  'long',
  /** Its headers say that it is twenty times as long as it is. */
  'liar',
] as const

/** `cut` has no tables, `short` has them and not all of its pictures, `silent` has no picture. */
export const BAD_CLIPS = ['page', 'nothing', 'cut', 'short', 'silent'] as const

export type ClipName = (typeof GOOD_CLIPS)[number] | (typeof BAD_CLIPS)[number]

const SILENT = '-f lavfi -i sine=d=2 -c:a aac'
const HEADERS = ['mvhd', 'tkhd', 'mdhd'] as const
/** In a header of version 0: where the length stands behind the type. */
const LENGTH_AT = { mvhd: 20, tkhd: 24, mdhd: 20 } as const

/** Makes all of them in a folder, each as `NAME.mp4`. */
export async function makeClips(folder: string): Promise<void> {
  await mkdir(folder)
  const at = (name: ClipName) => join(folder, `${name}.mp4`)
  const made = Object.entries({ ...WORDS, silent: SILENT }) as [ClipName, string][]
  for (const [name, words] of made) await rename(await makeClip(folder, words), at(name))
  const four = await readFile(at('four'))
  const up = await readFile(at('up'))
  await writeFile(at('liar'), lying(four))
  await writeFile(at('page'), '<html>the clip is not here</html>')
  await writeFile(at('nothing'), '')
  await writeFile(at('cut'), four.subarray(0, Math.floor(four.length / 2)))
  await writeFile(at('short'), up.subarray(0, up.length - 100))
}

function lying(clip: Buffer): Buffer {
  const changed = Buffer.from(clip)
  for (const type of HEADERS) {
    const place = changed.indexOf(type) + LENGTH_AT[type]
    changed.writeUInt32BE(changed.readUInt32BE(place) * 20, place)
  }
  return changed
}
