/** The part of a paid call that is particular to images; `inference/call/payWhole.ts` tells its story. */

import type { Admitted } from '../../billing/admission/admit.ts'
import { imageTerms, NO_TOKENS, prepare } from '../../billing/charges/settle.ts'
import type { ResolvedModel } from '../../catalog/model.ts'
import { type ImagePrice, imagePriceOf } from '../../catalog/price.ts'
import type { MemoryReservation } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { refusal } from '../../lib/errors.ts'
import type { Result } from '../../lib/result.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { type Drawn, ProviderFailure, type ProviderTarget } from '../../providers/dialect/spec.ts'
import type { InferenceCaller } from '../call/caller.ts'
import type { InferenceDependencies } from '../call/dependencies.ts'
import { beginCall, targetName } from '../call/paidCall.ts'
import { type InferenceAnswer, type PreparedAnswer, payWhole } from '../call/payWhole.ts'
import type { OwnWords } from '../call/refusals.ts'
import { measurePixels } from './measure.ts'
import { type ImagesRequest, imagesAtMost, imageWorstCase } from './request.ts'
import { imagesToWire } from './wire.ts'

/** Answers a request for images, as `payWhole` does. A large answer is held in `memory`. */
export function generate(
  dependencies: InferenceDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  request: ImagesRequest,
  signal: CallSignal,
  memory: MemoryReservation,
): Promise<Result<InferenceAnswer>> {
  const { prompt, count, size } = request
  const price = imagePriceOf(resolved.tier.price)
  return payWhole<Drawn>(
    dependencies,
    caller,
    resolved,
    {
      name: 'a call for images',
      traced: { operation: 'generate_content', images: count },
      ownWords: OWN_WORDS,
      // An answer begins when all of it is made.
      attemptDeadline: 'wholeMs',
      isRepeatable: false,
      memory,
      admission: beginCall(dependencies.money, caller, resolved),
      worst: imageWorstCase(price, request),
      send({ provider, model }, attemptSignal, connectMs, onWritten) {
        if (provider.draw === undefined) throw new ProviderFailure('misconfigured', 'it makes no images')
        return provider.draw({ model, prompt, count, size }, attemptSignal, connectMs, memory, onWritten)
      },
      deliver(drawn, admitted, target) {
        return deliver(dependencies, price, request, { drawn, admitted, target })
      },
    },
    signal,
  )
}

async function deliver(
  { log, money }: InferenceDependencies,
  price: ImagePrice,
  request: ImagesRequest,
  { drawn, admitted, target }: { readonly drawn: Drawn; readonly admitted: Admitted; readonly target: ProviderTarget },
): Promise<PreparedAnswer> {
  const { images, pixels } = keepImages(drawn, request)
  if (images.length === 0) {
    log.warn({ provider: target.provider.name, model: target.model }, 'a provider sent images of no known format')
    throw new ProviderFailure('faulty', 'there is no image in the answer')
  }
  const body = imagesToWire(Math.floor(admitted.admission.admittedAtMs / SECOND_MS), images)
  const prepared = await prepare(money, admitted, imageTerms(price, imagesAtMost(request)), {
    usage: NO_TOKENS,
    images: { count: images.length, pixels },
    estimated: false,
    target: targetName(target),
    outcome: 'completed',
  })
  return { body, prepared }
}

interface KeptImages {
  readonly images: Drawn
  readonly pixels: number
}

/**
 * Returns the images that are delivered and charged: at most `count`, each in a known format. An image larger than
 * `pixelsMost` counts as that many pixels.
 */
function keepImages(drawn: Drawn, { count, pixelsMost }: ImagesRequest): KeptImages {
  const images: Uint8Array<ArrayBuffer>[] = []
  let pixels = 0
  for (const image of drawn) {
    const measured = images.length < count ? measurePixels(image) : null
    if (measured === null) continue
    images.push(image)
    pixels += Math.min(measured, pixelsMost)
  }
  return { images, pixels }
}

const REJECTED = refusal(
  'invalid_request',
  'The model does not accept this request. Nothing was charged. Change the prompt or the size.',
)

const TOO_LONG = refusal('context_length_exceeded', 'The prompt is too long for the model. Shorten it.', {
  param: 'prompt',
})

/** Where images say more than what is said of every model. */
const OWN_WORDS: OwnWords = { rejected: REJECTED, context_length: TOO_LONG }
