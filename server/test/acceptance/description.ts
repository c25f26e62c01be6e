/**
 * Holds every answer to what `/openapi.json` says of it: that the status is documented, that the body fits its schema, and
 * that its headers are those that are described.
 */

import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js'

interface DescribedResponse {
  readonly content?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<
    Record<string, { readonly required?: boolean; readonly schema: { readonly type: string } }>
  >
}

interface Operation {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string; readonly required?: boolean }[]
  readonly responses: Readonly<Record<string, DescribedResponse>>
}

/** Headers that every HTTP answer may have: no description names them. */
const OF_HTTP: ReadonlySet<string> = new Set(['content-type', 'content-length', 'date', 'connection'])

/** An OpenAPI document, as far as the tests look into it. */
export interface Document {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, AnySchemaObject>> }
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body; undefined where it is no JSON. */
  readonly json: unknown
  /** The data of each server-sent event; empty where there are none. */
  readonly events: readonly string[]
}

export interface Description {
  /** Throws unless `answer` is one that the description announces for this call; `path` is beneath /v1. */
  check(method: string, path: string, answer: Answer): void
  /** Throws unless `value` fits the schema of this name. */
  checkSchema(name: string, value: unknown): void
}

/** Reads a description, to hold answers to it. */
export function createDescription(document: Document): Description {
  // The document has keywords that are no schema's; formats are for the eye.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema(document as AnySchemaObject, 'description')

  const fits = (steps: readonly string[], value: unknown): void => {
    const pointer = steps.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')
    const validate = ajv.getSchema(`description#/${encodeURI(pointer)}`)
    if (validate === undefined) throw new Error(`the description has no schema at ${pointer}`)
    if (!validate(value)) {
      throw new Error(`not as described at ${pointer}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`)
    }
  }

  return {
    checkSchema: (name, value) => fits(['components', 'schemas', name], value),
    check(method, path, answer) {
      const found = findOperation(document, method, path)
      // An operation that is not described is not served: it can only be refused, which the table of its test looks
      // at.
      if (found === null) {
        if (answer.status < 400) throw new Error(`${method} ${path} is served and not described`)
        return
      }
      const name = `${found.method.toUpperCase()} ${found.pattern}`
      const response = found.operation.responses[answer.status]
      if (response === undefined) throw new Error(`${name}: status ${answer.status} is not described: ${answer.text}`)
      const steps = ['paths', found.pattern, found.method, 'responses', `${answer.status}`]
      checkHeaders(response, answer, (header, value) => fits([...steps, 'headers', header, 'schema'], value))
      if (response.content === undefined || method === 'HEAD') {
        if (answer.text !== '') throw new Error(`${name}: ${answer.status} has a body: ${answer.text}`)
        return
      }
      const type = answer.headers.get('Content-Type') ?? ''
      if (response.content[type] === undefined) throw new Error(`${name}: ${answer.status} is not described as ${type}`)
      if (type === 'video/mp4') return
      const body = [...steps, 'content', type, 'schema']
      if (type === 'application/jsonl') {
        for (const line of answer.text.split('\n')) if (line !== '') fits(body, JSON.parse(line))
        return
      }
      if (type === 'text/csv') return fits(body, answer.text)
      if (type !== 'text/event-stream') return fits(body, answer.json)
      for (const event of answer.events) if (event !== '[DONE]') fits(body, JSON.parse(event))
    },
  }
}

/** Those that must be there are, each that is there is described, and fits. */
function checkHeaders(
  { headers: described = {} }: DescribedResponse,
  { status, headers }: Answer,
  check: (header: string, value: unknown) => void,
): void {
  for (const [name, { required, schema }] of Object.entries(described)) {
    const value = headers.get(name)
    if (value !== null) check(name, schema.type === 'integer' && /^\d+$/.test(value) ? Number(value) : value)
    else if (required === true) throw new Error(`${status} comes without its header ${name}`)
  }
  const names = new Set(Object.keys(described).map((name) => name.toLowerCase()))
  const others = [...headers.keys()].filter((name) => !OF_HTTP.has(name) && !names.has(name))
  if (others.length > 0) throw new Error(`${status} has headers that are not described: ${others.join(', ')}`)
}

function findOperation(document: Document, method: string, path: string) {
  // HEAD goes with GET (E9).
  const key = method === 'HEAD' ? 'get' : method.toLowerCase()
  const bare = path.split('?')[0] ?? ''
  for (const [pattern, operations] of Object.entries(document.paths)) {
    const operation = operations[key]
    // A model's id takes all the rest of the path: it may hold slashes.
    const id = pattern.startsWith('/models/') ? '.+' : '[^/]+'
    const matches = new RegExp(
      `^${pattern
        .replaceAll('.', '[.]')
        .replace('{id}', id)
        .replace(/\{\w+\}/g, '[^/]+')}$`,
    ).test(bare)
    if (operation !== undefined && matches) return { pattern, method: key, operation }
  }
  return null
}
