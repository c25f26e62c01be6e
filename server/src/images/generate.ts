/** What is particular to a call for images; `paid/payWhole.ts` tells its story. */

import type { Served } from '../catalog/model.ts'
import { type ImagePrice, imagePriceOf } from '../catalog/price.ts'
import type { Room } from '../kernel/byteBudget.ts'
import { refusal } from '../kernel/errors.ts'
import type { Result } from '../kernel/result.ts'
import { SECOND_MS } from '../kernel/time.ts'
import type { Admitted } from '../money/admit.ts'
import { settleImages } from '../money/settle.ts'
import type { PaidAnswer, PaidCaller } from '../paid/caller.ts'
import type { PaidDependencies, PaidMetrics } from '../paid/dependencies.ts'
import { type Delivery, payWhole } from '../paid/payWhole.ts'
import type { OwnWords } from '../paid/refusals.ts'
import { targetName } from '../paid/routeOf.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import { type Drawn, UpstreamFailure } from '../upstream/spec.ts'
import { measurePixels } from './measure.ts'
import { type ImagesRequest, worstCase } from './request.ts'
import { imagesToWire } from './wire.ts'

export interface ImagesMetrics extends PaidMetrics {
  /** Of a call that was charged. */
  images(model: string, count: number): void
}

export interface ImagesDependencies extends PaidDependencies {
  readonly metrics?: ImagesMetrics
}

/** Answers a request for images, as `payWhole` does. A large answer is held in `room`. */
export function generate(
  dependencies: ImagesDependencies,
  caller: PaidCaller,
  served: Served,
  request: ImagesRequest,
  signal: AbortSignal,
  room: Room,
): Promise<Result<PaidAnswer>> {
  const { prompt, count, size } = request
  const price = imagePriceOf(served.tier.price)
  return payWhole<Drawn>(
    dependencies,
    caller,
    served,
    {
      name: 'a call for images',
      traced: { operation: 'generate_content', images: count },
      ownWords: OWN_WORDS,
      // An answer begins when all of it is made.
      attemptDeadline: 'wholeMs',
      isRepeatable: false,
      worstAt: () => worstCase(price, request),
      send({ upstream, model }, attemptSignal, connectMs) {
        if (upstream.draw === undefined) throw new UpstreamFailure('misconfigured', 'it makes no images')
        return upstream.draw({ model, prompt, count, size }, attemptSignal, connectMs, room)
      },
      deliver(drawn, admitted, target) {
        const kept = keepImages(drawn, request)
        return deliver(dependencies, caller.keep, served, price, kept, { admitted, target })
      },
    },
    signal,
  )
}

async function deliver(
  { log, money, metrics }: ImagesDependencies,
  keep: PaidCaller['keep'],
  { model }: Served,
  price: ImagePrice,
  { images, pixels }: KeptImages,
  { admitted, target }: { readonly admitted: Admitted; readonly target: ChatTarget },
): Promise<Delivery | null> {
  if (images.length === 0) {
    log.warn({ upstream: target.upstream.name, model: target.model }, 'an upstream sent images of no known format')
    throw new UpstreamFailure('faulty', 'there is no image in the answer')
  }
  const body = imagesToWire(Math.floor(admitted.admission.admittedAtMs / SECOND_MS), images)
  const delivered = { images: { count: images.length, pixels }, target: targetName(target) }
  const costMicrocents = await settleImages(money, admitted, price, delivered, keep && (() => keep(body)))
  if (costMicrocents === null) return null
  metrics?.images(model.id, images.length)
  return { body, costMicrocents, traced: { usage: null, images: images.length } }
}

interface KeptImages {
  readonly images: Drawn
  readonly pixels: number
}

/** What is delivered, and so charged: images that are some, no more than were asked for, none larger than was. */
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
  'The model does not take this request. Nothing was charged. Say it in other words, or ask for another size.',
)

const TOO_LONG = refusal('context_length_exceeded', 'The prompt is too long for the model. Shorten it.', {
  param: 'prompt',
})

/** Where images say more than what is said of every model. */
const OWN_WORDS: OwnWords = { rejected: REJECTED, context_length: TOO_LONG }
