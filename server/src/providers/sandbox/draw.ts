import type { Clock } from '../../lib/time.ts'
import { type DrawCall, type Drawn, type ImageSize, ProviderFailure } from '../dialect/spec.ts'
import { drawText } from './picture.ts'
import { seedOf } from './seed.ts'
import type { SandboxSettings } from './settings.ts'
import { simulate } from './simulate.ts'

const SIZE: ImageSize = { width: 512, height: 512 }
/** Larger ones would hold up other calls while they are drawn. */
const SIDE_MOST = 2_048
const PROMPT_CHARACTERS = 400

/** Simulated images: each shows the prompt, its size and its seed. The same call gets the same images. */
export async function sandboxDraw(
  call: DrawCall,
  settings: SandboxSettings,
  clock: Clock,
  signal: AbortSignal,
  onBegun?: () => void,
): Promise<Drawn> {
  const { rest } = await simulate(call.prompt, settings, clock, signal, onBegun)
  const size = call.size ?? SIZE
  if (Math.max(size.width, size.height) > SIDE_MOST) {
    const message = `The sandbox draws images of at most ${SIDE_MOST}x${SIDE_MOST} pixels.`
    throw new ProviderFailure('rejected', 'too large for the sandbox', { publicMessage: message })
  }
  const images: Uint8Array<ArrayBuffer>[] = []
  for (let index = 0; index < call.count; index += 1) {
    signal.throwIfAborted()
    const seed = seedOf(call.model, call.prompt) + index
    const lines = [
      'SIMULATED IMAGE',
      '',
      `prompt: ${rest.slice(0, PROMPT_CHARACTERS).replaceAll(/\s+/g, ' ')}`,
      `size: ${size.width}x${size.height}`,
      `seed: ${seed}`,
    ]
    const image = await drawText(lines, size, seed)
    images.push(new TextEncoder().encode(image.toString('base64')))
  }
  return images
}
