import type { z } from 'zod'
import { lookUpForCall } from '../catalog/model.ts'
import { isForm } from '../http/form.ts'
import type { Attempt } from '../http/idempotency/attempts.ts'
import { jsonAnswer, keptJson } from '../http/jsonAnswer.ts'
import { callerOf, type Prepare } from '../http/onceForKey.ts'
import type { Answer, Handle, RouteRequest } from '../http/pipeline.ts'
import { validate } from '../http/validate.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { HEADER_BRAND } from '../lib/brand.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import { LIMIT_DEFAULT } from '../lib/listLimit.ts'
import { listPage } from '../lib/listPage.ts'
import { ok, refused } from '../lib/result.ts'
import { createVideo, newVideo, type VideoCaller } from './create.ts'
import { findOwn } from './find.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { acceptedVideo, type NewVideo, NO_SUCH_VIDEO } from './job/video.ts'
import { videoToWire } from './job/wire.ts'
import { type Outlook, outlookFor } from './queue/outlook.ts'
import { resolveVideo } from './request.ts'
import type { VideoRunner } from './run.ts'
import { videoCreateRequest, type videoList, videosQuery } from './schemas.ts'
import { listVideos } from './store.ts'
import { cancel } from './transitions.ts'

/** The dependencies of the verbs of videos, and a way to wake the runner. */
export type VideoEndpoints = VideoDependencies & Pick<VideoRunner, 'wake'>

/** The dependencies of an endpoint that only reads. */
interface VideoReading extends Pick<VideoDependencies, 'clock' | 'catalog'> {
  readonly database: Queryable
}

const ACCEPTED = 202

/** A job's place among those of its organization and model, while it waits. */
export const POSITION_HEADER = `${HEADER_BRAND}-Queue-Position`
/** `<soonest>-<latest>`: seconds from now within which it is likely to be complete. */
export const ESTIMATE_HEADER = `${HEADER_BRAND}-Estimated-Seconds`

/** POST /videos. */
export function createVideos(endpoints: VideoEndpoints): Prepare {
  return (call) => {
    const { fields, twice } = fieldsOf(call)
    const valid = validate(videoCreateRequest, fields, 'validation_failed')
    if (twice !== null && (valid.ok || valid.refusal.code !== 'unsupported_parameter')) return refused(twice)
    if (!valid.ok) return valid
    const { model, prompt, seconds, size } = valid.value
    return ok((attempt) => {
      const found = lookUpForCall(endpoints.catalog(), model, 'video')
      if (!found.ok) return found.refusal
      const given = { prompt, seconds: seconds == null ? null : Number(seconds), size: size ?? null }
      const request = resolveVideo(found.value.model, given)
      if (!request.ok) return request.refusal
      const caller = callerOf(call, attempt, endpoints.telemetry !== undefined)
      return accept(endpoints, caller, newVideo(endpoints, caller, found.value, request.value), attempt)
    })
  }
}

/** Returns the fields of a form as JSON would have them, and the refusal of the first that stands there twice. */
function fieldsOf({ request, body }: RouteRequest): { readonly fields: unknown; readonly twice: Refusal | null } {
  if (!isForm(request.headers.get('Content-Type'))) return { fields: body, twice: null }
  const fields: Record<string, string> = {}
  let twice: Refusal | null = null
  for (const { name, value } of body as readonly { readonly name: string; readonly value: string }[]) {
    if (Object.hasOwn(fields, name)) {
      const param = name.slice(0, 64)
      twice ??= refusal('validation_failed', `'${param}' is given more than once.`, { param })
      continue
    }
    // A plain assignment to a name such as __proto__ would be none.
    Object.defineProperty(fields, name, { value, enumerable: true })
  }
  return { fields, twice }
}

/** Writes the answer, accepts the job together with the answer to be kept, and only then lets the answer leave. */
async function accept(
  endpoints: VideoEndpoints,
  caller: VideoCaller,
  job: NewVideo,
  attempt: Attempt | null,
): Promise<Answer> {
  const body = videoToWire(acceptedVideo(job), endpoints.clock.now())
  const participants = await attempt?.keep(keptJson(body, ACCEPTED))
  const created = await createVideo(endpoints, caller, job, participants)
  if (!created.ok) return created.refusal
  endpoints.wake()
  return jsonAnswer(body, ACCEPTED)
}

/** GET /videos. */
export function showVideos({ database, clock }: VideoReading): Handle {
  return async (call) => {
    const { organizationId } = call.principal
    const valid = validate(videosQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!valid.ok) return valid.refusal
    const { limit = LIMIT_DEFAULT, after, order = 'desc' } = valid.value
    const before = after === undefined ? null : await findOwn(database, organizationId, after)
    if (after !== undefined && before === null) {
      return refusal('validation_failed', "'after' must be the id of one of your videos.", { param: 'after' })
    }
    const page = { after: before, isDescending: order === 'desc', limit: limit + 1 }
    const found = await listVideos(database, organizationId, page)
    const nowMs = clock.now()
    const { data, last } = listPage(found, limit, (video) => videoToWire(video, nowMs))
    const body: z.infer<typeof videoList> = {
      object: 'list',
      data: [...data],
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: last !== null,
    }
    return jsonAnswer(body)
  }
}

/** GET /videos/{id}. */
export function showVideo(endpoints: VideoReading): Handle {
  return async (call) => {
    const video = await findOwn(endpoints.database, call.principal.organizationId, call.parameters[0])
    if (video === null) return NO_SUCH_VIDEO
    return jsonAnswer(videoToWire(video, endpoints.clock.now()), 200, outlookToWire(await outlookFor(endpoints, video)))
  }
}

function outlookToWire(outlook: Outlook | null): Record<string, string> {
  const { position = null, seconds = null } = outlook ?? {}
  return {
    ...(position !== null && { [POSITION_HEADER]: `${position}` }),
    ...(seconds !== null && { [ESTIMATE_HEADER]: `${seconds.soonest}-${seconds.latest}` }),
  }
}

/** POST /videos/{id}/cancel. Always 200: what is over, or committed, is answered as it is (V4). */
export function cancelVideo(endpoints: VideoEndpoints): Prepare {
  return (call) =>
    ok(async () => {
      const { organizationId } = call.principal
      const video = await findOwn(endpoints.database, organizationId, call.parameters[0])
      if (video === null) return NO_SUCH_VIDEO
      const cancelled = await cancel(endpoints, video.id, organizationId)
      if (cancelled !== null) endpoints.wake()
      const now = cancelled ?? (await findOwn(endpoints.database, organizationId, video.id))
      return jsonAnswer(videoToWire(now ?? video, endpoints.clock.now()))
    })
}
