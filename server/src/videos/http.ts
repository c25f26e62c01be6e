import type { z } from 'zod'
import { lookUpForCall } from '../catalog/model.ts'
import { isForm } from '../edge/form.ts'
import type { Attempt, Prepare } from '../edge/onceForKey.ts'
import type { OpenRequests } from '../edge/openRequests.ts'
import type { Call, Handle } from '../edge/pipeline.ts'
import { validate } from '../edge/validate.ts'
import { HEADER_BRAND } from '../kernel/brand.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { createVideo } from './create.ts'
import type { VideoDependencies } from './dependencies.ts'
import { findOwn } from './find.ts'
import { type Outlook, outlookFor } from './queue/outlook.ts'
import { resolveVideo } from './request.ts'
import type { VideoRunner } from './run.ts'
import { LIMIT_DEFAULT, videoCreateRequest, type videoList, videosQuery } from './schemas.ts'
import { listVideos } from './store.ts'
import { cancel } from './transitions.ts'
import { NO_SUCH_VIDEO, type Video } from './video.ts'
import { videoToWire } from './wire.ts'

/** What the endpoints need: the domain, and the runner that is to be woken. */
export type VideoEndpoints = VideoDependencies & Pick<VideoRunner, 'wake'>

const JSON_TYPE = 'application/json'
const ACCEPTED = 202

/** A job's place among those of its organization and model, while it waits. */
export const POSITION_HEADER = `${HEADER_BRAND}-Queue-Position`
/** `<soonest>-<latest>`: seconds from now within which it is likely to be complete. */
export const ESTIMATE_HEADER = `${HEADER_BRAND}-Estimated-Seconds`

/** POST /videos. */
export function createVideos(endpoints: VideoEndpoints, openRequests: OpenRequests): Prepare {
  return (call) => {
    const fields = fieldsOf(call)
    if (!fields.ok) return fields
    const valid = validate(videoCreateRequest, fields.value, 'validation_failed')
    if (!valid.ok) return valid
    const { model, prompt, seconds, size } = valid.value
    return ok(async (attempt) => {
      const found = lookUpForCall(endpoints.catalog(), model, 'video')
      if (!found.ok) return found.refusal
      const given = { prompt, seconds: seconds == null ? null : Number(seconds), size: size ?? null }
      const request = resolveVideo(found.value.model, given)
      if (!request.ok) return request.refusal
      const taking = openRequests.take(call.key.id)
      const place = taking instanceof Promise ? await taking : taking
      if (typeof place !== 'function') return place
      try {
        const { organizationId, id: keyId } = call.key
        const write = (video: Video) => JSON.stringify(videoToWire(video, endpoints.clock.now()))
        const keep = attempt === null ? {} : { keep: keeperOf(attempt, write) }
        const traceparent = endpoints.telemetry ? call.request.headers.get('traceparent') : null
        const caller = { organizationId, keyId, traceparent, ...keep }
        const created = await createVideo(endpoints, caller, found.value, request.value)
        if (!created.ok) return created.refusal
        endpoints.wake()
        return new Response(write(created.value), { status: ACCEPTED, headers: { 'Content-Type': JSON_TYPE } })
      } finally {
        place()
      }
    })
  }
}

/** The fields of a form as JSON would have them; each may stand there once. */
function fieldsOf({ request, body }: Call): Result<unknown> {
  if (!isForm(request.headers.get('Content-Type'))) return ok(body)
  const fields: Record<string, string> = {}
  for (const { name, value } of body as readonly { readonly name: string; readonly value: string }[]) {
    if (Object.hasOwn(fields, name)) {
      const param = name.slice(0, 64)
      return refused(refusal('validation_failed', `'${param}' is given more than once.`, { param }))
    }
    // A plain assignment to a name such as __proto__ would be none.
    Object.defineProperty(fields, name, { value, enumerable: true })
  }
  return ok(fields)
}

function keeperOf(attempt: Attempt, write: (video: Video) => string) {
  return (video: Video) =>
    attempt.keep({
      status: ACCEPTED,
      contentType: JSON_TYPE,
      operationId: null,
      body: new TextEncoder().encode(write(video)),
    })
}

/** GET /videos. */
export function showVideos({ database, clock }: VideoEndpoints): Handle {
  return async (call) => {
    const { organizationId } = call.key
    const valid = validate(videosQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!valid.ok) return valid.refusal
    const { limit = LIMIT_DEFAULT, after, order = 'desc' } = valid.value
    const last = after === undefined ? null : await findOwn(database, organizationId, after)
    if (after !== undefined && last === null) {
      return refusal('validation_failed', "'after' must be the id of one of your videos.", { param: 'after' })
    }
    const page = { after: last, isDescending: order === 'desc', limit: limit + 1 }
    const found = await listVideos(database, organizationId, page)
    const nowMs = clock.now()
    const data = found.slice(0, limit).map((video) => videoToWire(video, nowMs))
    const body: z.infer<typeof videoList> = {
      object: 'list',
      data: [...data],
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: found.length > limit,
    }
    return json(body)
  }
}

/** GET /videos/{id}. */
export function showVideo(endpoints: VideoEndpoints): Handle {
  return async (call) => {
    const video = await findOwn(endpoints.database, call.key.organizationId, call.parameters[0])
    if (video === null) return NO_SUCH_VIDEO
    return json(videoToWire(video, endpoints.clock.now()), outlookToWire(await outlookFor(endpoints, video)))
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
      const { organizationId } = call.key
      const video = await findOwn(endpoints.database, organizationId, call.parameters[0])
      if (video === null) return NO_SUCH_VIDEO
      const cancelled = await cancel(endpoints, video.id, organizationId)
      if (cancelled !== null) endpoints.wake()
      const now = cancelled ?? (await findOwn(endpoints.database, organizationId, video.id))
      return json(videoToWire(now ?? video, endpoints.clock.now()))
    })
}

function json(body: object, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), { headers: { 'Content-Type': JSON_TYPE, ...headers } })
}
