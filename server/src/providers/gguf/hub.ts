import { type Clock, SECOND_MS } from '../../lib/time.ts'

const HUB = 'https://huggingface.co'
const REDIRECTS_MAX = 5
const DEADLINE_MS = 30 * SECOND_MS

/** Why a model could not be fetched, in words for the operator. */
export class PullFailure extends Error {
  override readonly name = 'PullFailure'
}

/** One file of a repository on the hub. */
export interface HubFile {
  readonly owner: string
  readonly repository: string
  /** Folders, if any, and the file's name. */
  readonly path: string
  readonly fileName: string
}

const SPEC = /^hf:([\w.-]+)\/([\w.-]+)\/((?:[\w.-]+\/)*([\w.-]+\.gguf))$/i
const SPLIT = /-\d{5}-of-\d{5}\.gguf$/i

/** Reads `hf:OWNER/REPO/FILE.gguf`. Throws {@link PullFailure} for all else. */
export function parseSpec(spec: string): HubFile {
  const [, owner, repository, path, fileName] = SPEC.exec(spec) ?? []
  if (owner === undefined || repository === undefined || path === undefined || fileName === undefined) {
    throw new PullFailure(`"${spec}" is not a model file: use hf:OWNER/REPO/FILE.gguf`)
  }
  if (
    spec
      .slice('hf:'.length)
      .split('/')
      .some((part) => /^\.+$/.test(part) || part.startsWith('.'))
  ) {
    throw new PullFailure(`"${spec}" is not a model file: no part of it may start with a dot`)
  }
  if (SPLIT.test(fileName)) {
    throw new PullFailure(`${fileName} is one part of a split model: choose a quantisation that is a single file`)
  }
  return { owner, repository, path, fileName }
}

/** The file as the downloader is to be asked for it. */
export const toUri = (file: HubFile) => `hf:${file.owner}/${file.repository}/${file.path}`

/** The hash and size of a file, which the hub gives before it is fetched. */
export interface HubFacts {
  /** 64 lower-case hex digits. */
  readonly sha256: string
  /** Null where the hub does not say. */
  readonly sizeBytes: number | null
}

export interface HubRequest {
  readonly file: HubFile
  /** The hub's origin; left out, Hugging Face's. */
  readonly hub?: string | undefined
  readonly token?: string | undefined
  readonly clock: Clock
  readonly signal?: AbortSignal | undefined
}

/**
 * Asks the hub for a file's SHA-256 and size: `X-Linked-Etag` and `X-Linked-Size` of the answer that redirects to the
 * file's storage. Throws {@link PullFailure}.
 */
export async function askHub(request: HubRequest): Promise<HubFacts> {
  const { file } = request
  const hub = (request.hub ?? HUB).replace(/\/+$/, '')
  let url = new URL(`${hub}/${file.owner}/${file.repository}/resolve/main/${file.path}`)
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects += 1) {
    const response = await head(url, request)
    const etag = response.headers.get('x-linked-etag')
    if (etag !== null) return { sha256: sha256Of(etag, file), sizeBytes: sizeOf(response.headers.get('x-linked-size')) }
    const next = nextOf(response, url)
    if (next === null) throw new PullFailure(explain(response.status, file, url.host))
    url = next
  }
  throw new PullFailure(`${url.host} redirects too many times: try again later`)
}

async function head(url: URL, { clock, token, signal }: HubRequest): Promise<Response> {
  const deadline = new AbortController()
  const cancel = clock.after(DEADLINE_MS, () => deadline.abort())
  try {
    return await fetch(url, {
      method: 'HEAD',
      redirect: 'manual',
      headers: {
        'user-agent': 'tollgate',
        'accept-encoding': 'identity',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      signal: signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, signal]),
    })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    const reason = deadline.signal.aborted ? `no answer in ${DEADLINE_MS / SECOND_MS} s` : codeOf(error)
    throw new PullFailure(`${url.host} can't be reached (${reason}): check this machine's network and proxy settings`)
  } finally {
    cancel()
  }
}

/** A repository that was renamed redirects within the hub; only those redirects are followed. */
function nextOf(response: Response, from: URL): URL | null {
  const location = response.headers.get('location')
  if (response.status < 300 || response.status > 399 || location === null || !URL.canParse(location, from)) return null
  const next = new URL(location, from)
  return next.origin === from.origin ? next : null
}

function explain(status: number, file: HubFile, host: string): string {
  const name = `${file.owner}/${file.repository}/${file.path}`
  if (status === 404) return `${host} has no ${name}: check the owner, the repository and the file's name`
  if (status === 401 || status === 403) {
    return `${host} does not give ${name} to everybody: it does not exist, is private, or its licence must be accepted there`
  }
  if (status === 429 || status >= 500) return `${host} answered with ${status}: try again later`
  if (status < 400) return `${host} names no SHA-256 for ${name}, so it can't be checked: choose a file kept in its LFS`
  return `${host} answered with ${status}`
}

function sha256Of(etag: string, file: HubFile): string {
  const digits = /^(?:W\/)?"?([0-9a-f]{64})"?$/i.exec(etag.trim())?.[1]
  if (digits === undefined) {
    throw new PullFailure(
      `the hub gives no valid SHA-256 for ${file.fileName}, so it can't be verified: choose another file`,
    )
  }
  return digits.toLowerCase()
}

function sizeOf(header: string | null): number | null {
  const size = Number(header ?? Number.NaN)
  return Number.isSafeInteger(size) && size >= 0 ? size : null
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'no connection'
}
