import { refusalResponse } from '../../http/envelopes.ts'
import { AT_ONCE_BYTES, atLeastRate } from '../../http/inSlices.ts'
import { startLeaving } from '../../http/leaving.ts'
import type { Answer, Handle, RouteRequest } from '../../http/pipeline.ts'
import { type Artifacts, readArtifactRange } from '../../infra/artifacts.ts'
import { refusal } from '../../lib/errors.ts'
import type { Clock } from '../../lib/time.ts'
import { NO_SUCH_VIDEO, type Video } from '../job/video.ts'
import { statusToWire } from '../job/wire.ts'
import { type Asked, askedFor, type Validators } from './range.ts'

const EXPIRED = refusal(
  'expired',
  'This video has expired and can not be fetched any more: files are kept for 24 hours. Create it again.',
)

export interface ContentDependencies {
  /** Returns an organization's own job by what stands in a path; null where it has none of that id. */
  readonly find: (organizationId: string, id: string | undefined) => Promise<Video | null>
  readonly clock: Clock
  readonly artifacts: Artifacts
}

/** GET /videos/{id}/content. */
export function showContent(dependencies: ContentDependencies): Handle {
  return async (call) => {
    const variant = call.query.get('variant')
    if (variant !== null && variant !== 'video') {
      return refusal('unsupported_parameter', "'video' is the only variant; leave 'variant' out.", {
        param: 'variant',
      })
    }
    const video = await dependencies.find(call.principal.organizationId, call.parameters[0])
    if (video === null) return NO_SUCH_VIDEO
    const status = statusToWire(video, dependencies.clock.now())
    if (status === 'expired') return EXPIRED
    const { artifact, artifactBytes } = video
    if (status !== 'completed' || artifact === null || artifactBytes === null) {
      return refusal('not_found', `There is no file to download: the status of this video is '${status}'.`)
    }
    return answer(dependencies, call, video, { name: artifact, bytes: artifactBytes })
  }
}

interface File {
  readonly name: string
  readonly bytes: number
}

async function answer(
  dependencies: ContentDependencies,
  call: RouteRequest,
  video: Video,
  file: File,
): Promise<Answer> {
  const validators: Validators = {
    etag: `"${file.name.replace(/\.mp4$/, '')}"`,
    lastModified: new Date(video.completedAtMs ?? 0).toUTCString(),
  }
  const { method, headers: sent } = call.request
  const asked = askedFor(method, sent, file.bytes, validators)
  const headers = {
    ETag: validators.etag,
    'Last-Modified': validators.lastModified,
    'Accept-Ranges': 'bytes',
    'Cache-Control': 'private',
  }
  if (asked.kind === 'unchanged') return new Response(null, { status: 304, headers })
  if (asked.kind === 'outside') return outside(call, file, headers)
  return send(dependencies, call, file, asked, headers)
}

function outside(call: RouteRequest, { bytes }: File, headers: Readonly<Record<string, string>>): Response {
  const refused = refusal('range_not_satisfiable', `The file has ${bytes} bytes, none of which are in the Range.`)
  return refusalResponse(refused, 'B', call.requestId, { ...headers, 'Content-Range': `bytes */${bytes}` })
}

async function send(
  { artifacts, clock }: ContentDependencies,
  call: RouteRequest,
  { name, bytes }: File,
  asked: Extract<Asked, { kind: 'whole' | 'part' }>,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  const { first, last } = asked.kind === 'part' ? asked : { first: 0, last: bytes - 1 }
  const length = last - first + 1
  const body =
    length <= AT_ONCE_BYTES
      ? await readArtifactRange(artifacts, name, first, last)
      : await artifacts.read(name, first, last)
  // It was there when it was published, and its time is not over.
  if (body === null) throw new Error(`the file ${name} is not among the artifacts: do all machines share one place?`)
  return new Response(body instanceof ReadableStream ? heldOpen(body, clock, call) : body, {
    status: asked.kind === 'part' ? 206 : 200,
    headers: {
      ...headers,
      'Content-Type': 'video/mp4',
      // The server drops it from the answer to a GET of more, which leaves in chunks, and keeps it in that to a HEAD.
      'Content-Length': String(length),
      ...(asked.kind === 'part' && { 'Content-Range': `bytes ${first}-${last}/${bytes}` }),
    },
  })
}

/**
 * Keeps the place of the request until its last byte has left or its client has. A client must take it at the least rate (K4), and its key
 * must not end meanwhile (K6).
 */
function heldOpen(file: ReadableStream<Uint8Array>, clock: Clock, call: RouteRequest): ReadableStream<Uint8Array> {
  const reader = file.getReader()
  const source = {
    next: () => reader.read().then(({ done, value }) => (done ? null : value)),
    cancel: () => void reader.cancel().catch(() => {}),
  }
  return atLeastRate(source, clock, startLeaving(call, call.holdOpen()))
}
