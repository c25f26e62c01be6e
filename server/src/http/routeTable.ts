/**
 * Finds the route of a path. A table of its own and no library: all that a router would do for us beyond this look-up,
 * the pipeline does, and a paid call passes here first.
 */

/** One path of the table, with what is registered for each of its methods. */
export interface RouteEntry<T> {
  /** As it stands in the table, whatever way it was written in the request. */
  readonly path: string
  /** By HTTP method. */
  readonly methods: ReadonlyMap<string, T>
}

export interface Found<T> extends RouteEntry<T> {
  /** The parts of the path that stand for parameters, decoded, in their order. One that can't be decoded is as it was sent. */
  readonly parameters: readonly string[]
}

interface Pattern<T> extends RouteEntry<T> {
  readonly methods: Map<string, T>
  /** Null stands for any one segment; it may be empty only where it takes the rest of the path. */
  readonly segments: readonly (string | null)[]
  /** True when the last parameter takes the rest of the path, slashes and all. */
  readonly takesRest: boolean
}

/** Paths are written as in the description: `/videos/{id}`; `{id...}` at the end takes the rest of the path. */
export class RouteTable<T> {
  private readonly byPath = new Map<string, Pattern<T>>()
  private readonly patterns: Pattern<T>[] = []

  add(method: string, path: string, value: T): void {
    let pattern = this.byPath.get(path)
    if (pattern === undefined) {
      const segments = path.split('/').map((segment) => (segment.startsWith('{') ? null : segment))
      pattern = { path, methods: new Map(), segments, takesRest: path.endsWith('...}') }
      this.byPath.set(path, pattern)
      this.patterns.push(pattern)
    }
    pattern.methods.set(method, value)
  }

  /**
   * The endpoint at a path as it was sent; null when there is none. The fixed parts of a path are compared as they were sent:
   * a proxy in front that forbids `/v1/videos` must not be passed by `/v1/%76ideos`.
   */
  find(path: string): Found<T> | null {
    const exact = this.byPath.get(path)
    if (exact !== undefined && !path.includes('{')) return { path, methods: exact.methods, parameters: NONE }
    const sent = path.split('/')
    for (const pattern of this.patterns) {
      const parameters = match(pattern, sent)
      if (parameters !== null) return { path: pattern.path, methods: pattern.methods, parameters }
    }
    return null
  }
}

const NONE: readonly string[] = []

function match(pattern: Pattern<unknown>, sent: readonly string[]): readonly string[] | null {
  const { segments, takesRest } = pattern
  if (takesRest ? sent.length < segments.length : sent.length !== segments.length) return null
  const parameters: string[] = []
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1
    const text = takesRest && isLast ? sent.slice(index).join('/') : (sent[index] ?? '')
    if (segment === null) {
      if (text === '' && !takesRest) return null
      parameters.push(decoded(text))
    } else if (segment !== text) return null
  }
  return parameters
}

/** Returns a parameter without its percent-encoding, in which clients may write any character. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/**
 * Path and query of a request's URL, neither decoded; the query without its question mark. A request of HTTP/1.0 without a
 * `Host` header has a URL that begins with its path.
 */
export function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const hash = url.indexOf('#', start)
  const end = hash < 0 ? url.length : hash
  const question = url.indexOf('?', start)
  if (question < 0 || question > end) return { path: url.slice(start, end), query: '' }
  return { path: url.slice(start, question), query: url.slice(question + 1, end) }
}
