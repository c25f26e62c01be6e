import { type DrawCall, ProviderFailure } from '../dialect/spec.ts'

/** A tag in a prompt with which the server takes settings of its own: a client could ask for anything with it. */
const SETTINGS_TAG = 'sd_cpp_extra_args'

/**
 * The body of a call. Left to itself the server draws every prompt from one and the same seed; the only place where it takes
 * another is within the prompt. Throws a `rejected` ProviderFailure for a prompt that tries to do so itself.
 */
export function drawToSdcpp({ model, prompt, count, size }: DrawCall): string {
  refuseSettings(prompt)
  return JSON.stringify({
    model,
    prompt: `${prompt}<${SETTINGS_TAG}>{"seed":-1}</${SETTINGS_TAG}>`,
    n: count,
    size: size === null ? undefined : `${size.width}x${size.height}`,
    output_format: 'png',
  })
}

/** Throws a `rejected` ProviderFailure for a prompt that holds settings of the server. */
export function refuseSettings(prompt: string): void {
  if (!prompt.includes(SETTINGS_TAG)) return
  const message = `The prompt must not contain '${SETTINGS_TAG}': describe the picture in words.`
  throw new ProviderFailure('rejected', 'the prompt holds settings of the server', { publicMessage: message })
}
