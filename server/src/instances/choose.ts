import type { GpuType, InstanceApp, InstanceSettings } from '../catalog/offering.ts'
import { refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import { hourCentsOf } from './job/wire.ts'

/** The instance that a customer asks for. */
export interface InstanceRequest {
  readonly app: string
  readonly gpuType: string
  readonly gpuCount: number
  readonly diskGb: number
  readonly model: string | null
  readonly name: string | null
  /** The price of an hour of the whole instance that the customer was shown. */
  readonly expectedPricePerHourCents: number
}

/** A request that the settings have everything for. */
export interface ChosenInstance extends InstanceRequest {
  readonly gpu: GpuType
  readonly program: InstanceApp
  /** Of the whole instance. */
  readonly hourMicrocents: bigint
}

/** Finds what a request names among the offerings. Refuses what is not offered, does not fit, or has another price by now. */
export function chooseInstance(settings: InstanceSettings, request: InstanceRequest): Result<ChosenInstance> {
  const program = settings.apps.find(({ name }) => name === request.app)
  if (program === undefined) return refused(NO_SUCH_APP)
  // Before what does not fit it (E1).
  const model = program.models.find(({ name }) => name === request.model)
  if (request.model !== null && model === undefined) return refused(NO_SUCH_MODEL)
  const gpu = settings.gpuTypes.find(({ name }) => name === request.gpuType)
  if (gpu === undefined) return refused(NO_SUCH_GPU)
  if (request.gpuCount > gpu.count) {
    const message = `An instance has at most ${gpu.count} GPUs of the type '${gpu.name}'.`
    return refused(refusal('invalid_gpu_type', message, { param: 'gpu_count' }))
  }
  if (request.diskGb > gpu.diskGbMax) {
    const message = `An instance with this GPU type has at most ${gpu.diskGbMax} GB of disk.`
    return refused(refusal('disk_exceeds_offering', message, { param: 'disk_gb' }))
  }
  const fits = checkMemory(gpu.vramGb * request.gpuCount, program, model)
  if (!fits.ok) return fits
  if (request.model === null && settings.driver.kind === 'process' && needsModel(program)) return refused(NO_MODEL)
  const hourMicrocents = gpu.gpuHourMicrocents * BigInt(request.gpuCount)
  const price = hourCentsOf(hourMicrocents)
  if (price !== request.expectedPricePerHourCents) {
    const message = `The price of this instance is ${price} cents ($${(price / 100).toFixed(2)}) an hour. To accept it, set 'expected_price_per_hour_cents'.`
    return refused(refusal('price_changed', message, { param: 'expected_price_per_hour_cents', retryIsUseless: true }))
  }
  return ok({ ...request, gpu, program, hourMicrocents })
}

const NO_SUCH_GPU = refusal(
  'invalid_gpu_type',
  'No such GPU type is offered: GET /v1/instances/offerings lists them.',
  {
    param: 'gpu_type',
  },
)

const NO_SUCH_APP = refusal('validation_failed', "'app' is not offered: GET /v1/instances/offerings lists the apps.", {
  param: 'app',
})

const NO_SUCH_MODEL = refusal('model_not_found', 'This app has no such model: GET /v1/instances/offerings lists them.')

const NO_MODEL = refusal(
  'validation_failed',
  "This app needs a 'model': GET /v1/instances/offerings lists its models.",
  {
    param: 'model',
  },
)

/** Returns whether an app's command has a place for the model, without which the driver `process` does not start it. */
function needsModel({ command }: InstanceApp): boolean {
  return command?.some((word) => word.includes('{model}')) === true
}

function checkMemory(
  vramGb: number,
  program: InstanceApp,
  model: InstanceApp['models'][number] | undefined,
): Result<null> {
  if (program.vramGbMin > vramGb) {
    const message = `This app needs ${program.vramGbMin} GB of GPU memory, and the instance would have ${vramGb} GB.`
    return refused(refusal('gpu_vram_too_small', message, { param: 'gpu_type' }))
  }
  if (model === undefined || model.vramGb <= vramGb) return ok(null)
  const message = `This model needs ${model.vramGb} GB of GPU memory, and the instance would have ${vramGb} GB.`
  return refused(refusal('model_too_large', message, { param: 'model' }))
}
