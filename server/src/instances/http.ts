import type { z } from 'zod'
import type { InstanceSettings } from '../catalog/offering.ts'
import { jsonAnswer, keptJson } from '../http/jsonAnswer.ts'
import { BY_CREATION, showList } from '../http/list.ts'
import type { Prepare, Work } from '../http/onceForKey.ts'
import type { Handle, RouteRequest } from '../http/pipeline.ts'
import type { KeyOrSession } from '../http/principal.ts'
import { validate } from '../http/validate.ts'
import { counting } from '../identity/audit/budget.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import { joinAll } from '../infra/postgres/joinAll.ts'
import { refusal } from '../lib/errors.ts'
import { isUuid, uuidV7 } from '../lib/ids.ts'
import { ok } from '../lib/result.ts'
import { acceptedOperation, type Operation } from '../operations/operation.ts'
import { operationToWire } from '../operations/wire.ts'
import { type AppPassword, setAppPassword } from './access/setPassword.ts'
import { chooseInstance } from './choose.ts'
import { createInstance, newCreation } from './create.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { NO_SUCH_INSTANCE } from './job/instance.ts'
import { hourCentsOf, instanceToWire } from './job/wire.ts'
import {
  type appPasswordSchema,
  instanceCreateRequest,
  instancesQuery,
  noFields,
  type offeringsSchema,
} from './schemas.ts'
import { findInstance, listInstances } from './store.ts'
import { deleteInstance } from './transitions.ts'

/** The dependencies of the verbs of instances, a way to wake the runner, the audit log, and the pool for reads whose clients wait. */
export interface InstanceEndpoints extends InstanceDependencies {
  readonly wake: () => void
  readonly noter: Noter
  readonly reads: Queryable
}

const ACCEPTED = 202

const NO_LIVE_INSTANCE = refusal(
  'not_found',
  'There is no instance with this id that has not ended: GET /v1/instances lists yours.',
)

/** GET /instances/offerings. */
export function showOfferings({ gpuTypes, apps }: InstanceSettings): Handle<KeyOrSession> {
  const body: z.infer<typeof offeringsSchema> = {
    gpu_types: gpuTypes.map((gpu) => ({
      name: gpu.name,
      vram_gb: gpu.vramGb,
      count: gpu.count,
      price_per_hour_cents: hourCentsOf(gpu.gpuHourMicrocents),
      price_per_hour_microcents: Number(gpu.gpuHourMicrocents),
      disk_gb_max: gpu.diskGbMax,
    })),
    apps: apps.map(({ name, port, terminal, vramGbMin, models }) => ({
      ...{ name, port, terminal },
      vram_gb_min: vramGbMin,
      models: models.map((model) => ({ name: model.name, vram_gb: model.vramGb })),
    })),
  }
  return () => jsonAnswer(body)
}

/** POST /instances. */
export function createInstances(endpoints: InstanceEndpoints): Prepare<KeyOrSession> {
  return (call) => {
    const valid = validate(instanceCreateRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!valid.ok) return valid
    const asked = valid.value
    return ok(async (attempt) => {
      const chosen = chooseInstance(endpoints.settings, {
        app: asked.app,
        gpuType: asked.gpu_type,
        gpuCount: asked.gpu_count ?? 1,
        diskGb: asked.disk_gb ?? 0,
        model: asked.model ?? null,
        name: asked.name ?? null,
        expectedPricePerHourCents: asked.expected_price_per_hour_cents,
      })
      if (!chosen.ok) return chosen.refusal
      const { organizationId, id: principalId } = call.principal
      const creation = newCreation(endpoints, { organizationId, principalId }, chosen.value)
      const { app, gpuType, gpuCount, hourMicrocents } = chosen.value
      const counted = counting(organizationId, endpoints.clock.now())
      const noted = endpoints.noter(call)({
        action: 'instance.created',
        subjectId: creation.instance.id,
        before: null,
        after: { app, gpu_type: gpuType, gpu_count: gpuCount, price_per_hour_cents: hourCentsOf(hourMicrocents) },
      })
      const body = {
        ...operationToWire(acceptedOperation(creation.operation)),
        warnings: warningsFor(chosen.value.program.models, asked.model ?? null),
      }
      const participants = (await attempt?.keep({ ...keptJson(body, ACCEPTED), operationId: body.operation_id })) ?? []
      const short = await createInstance(endpoints, creation, [counted, noted, ...participants])
      if (short !== null) return short
      endpoints.wake()
      return answerOf(body.operation_id, body)
    })
  }
}

/** Advice on a creation that is accepted. */
function warningsFor(models: readonly unknown[], model: string | null): string[] {
  return models.length > 0 && model === null ? ['No model is named: the app starts without one.'] : []
}

function answerOf(operationId: string, body: object): Response {
  return jsonAnswer(body, ACCEPTED, { 'Operation-Id': operationId })
}

/** GET /instances. */
export function showInstances({ reads }: InstanceEndpoints): Handle<KeyOrSession> {
  return showList({
    name: 'instances',
    query: instancesQuery,
    place: BY_CREATION,
    find: ({ principal }, behind, limit) => listInstances(reads, principal.organizationId, behind, limit),
    toWire: instanceToWire,
  })
}

/** GET /instances/{id}. */
export function showInstance({ reads }: InstanceEndpoints): Handle<KeyOrSession> {
  return async (call) => {
    const id = call.parameters[0]
    if (id === undefined || !isUuid(id)) return NO_SUCH_INSTANCE
    const instance = await findInstance(reads, call.principal.organizationId, id)
    return instance === null ? NO_SUCH_INSTANCE : jsonAnswer(instanceToWire(instance))
  }
}

/** Prepares a request that takes no fields, and refuses one that has some. */
function withoutFields(workOf: (call: RouteRequest<KeyOrSession>) => Work): Prepare<KeyOrSession> {
  return (call) => {
    const valid = validate(noFields, call.body, 'validation_failed', undefined, 'validation_failed')
    return valid.ok ? ok(workOf(call)) : valid
  }
}

/** POST /instances/{id}/app-password. */
export function createAppPassword(endpoints: InstanceEndpoints): Prepare<KeyOrSession> {
  return withoutFields((call) => async (attempt) => {
    const id = call.parameters[0]
    if (id === undefined || !isUuid(id)) return NO_SUCH_INSTANCE
    const { organizationId } = call.principal
    const change = { action: 'instance.app_password_made', subjectId: id, before: null, after: null }
    const noted = endpoints.noter(call)(change)
    const counted = counting(organizationId, endpoints.clock.now())
    const keep = async (tx: Transaction, password: AppPassword) =>
      joinAll(tx, [counted, noted, ...((await attempt?.keep(keptJson(passwordToWire(password), 201))) ?? [])])
    const made = await setAppPassword(endpoints, { id, organizationId }, keep)
    return made === null ? NO_LIVE_INSTANCE : jsonAnswer(passwordToWire(made), 201)
  })
}

function passwordToWire({ appUrl, terminalUrl, user, password }: AppPassword): z.infer<typeof appPasswordSchema> {
  return { app_url: appUrl, terminal_url: terminalUrl, user, password }
}

/** DELETE /instances/{id}. */
export function deleteInstances(endpoints: InstanceEndpoints): Prepare<KeyOrSession> {
  return withoutFields((call) => async (attempt) => {
    const id = call.parameters[0]
    if (id === undefined || !isUuid(id)) return NO_SUCH_INSTANCE
    const { organizationId, id: principalId } = call.principal
    const createdAtMs = endpoints.clock.now()
    const operation = {
      ...{ organizationId, principalId, createdAtMs },
      id: uuidV7(createdAtMs, endpoints.random),
      kind: 'instance.delete',
      resourceId: id,
    } as const
    const change = { action: 'instance.deleted', subjectId: id, before: null, after: null }
    const noted = endpoints.noter(call)(change)
    // Nothing changes where the instance has ended before.
    const keep = async (accepted: Operation, hasEnded: boolean) => [
      ...(hasEnded ? [noted] : []),
      ...((await attempt?.keep({ ...keptJson(operationToWire(accepted), ACCEPTED), operationId: accepted.id })) ?? []),
    ]
    const accepted = await deleteInstance(endpoints, { id, organizationId }, operation, keep)
    if (accepted === null) return NO_SUCH_INSTANCE
    endpoints.wake()
    return answerOf(accepted.id, operationToWire(accepted))
  })
}
