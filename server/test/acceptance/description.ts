/** Holds every answer to what `/openapi.json` says of it: that the status is documented, and that the body fits its schema. */

import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js'

interface Operation {
  readonly operationId: string
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>
}

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
    check(method, path, answer) {
      const found = findOperation(document, method, path)
      // What is not described is not served: it can only be refused, which the table of its test looks at.
      if (found === null) {
        if (answer.status < 400) throw new Error(`${method} ${path} is served and not described`)
        return
      }
      const name = `${found.method.toUpperCase()} ${found.pattern}`
      const response = found.operation.responses[answer.status]
      if (response === undefined) throw new Error(`${name}: status ${answer.status} is not described: ${answer.text}`)
      if (response.content === undefined || method === 'HEAD') {
        if (answer.text !== '') throw new Error(`${name}: ${answer.status} has a body: ${answer.text}`)
        return
      }
      const type = answer.headers.get('Content-Type') ?? ''
      if (response.content[type] === undefined) throw new Error(`${name}: ${answer.status} is not described as ${type}`)
      const steps = ['paths', found.pattern, found.method, 'responses', `${answer.status}`, 'content', type, 'schema']
      if (type !== 'text/event-stream') return fits(steps, answer.json)
      for (const event of answer.events) if (event !== '[DONE]') fits(steps, JSON.parse(event))
    },
  }
}

function findOperation(document: Document, method: string, path: string) {
  // HEAD goes with GET (E9).
  const key = method === 'HEAD' ? 'get' : method.toLowerCase()
  // The first name only: the rest may be a model's, with any bytes in it.
  const bare = (path.split('?')[0] ?? '').replace(/^\/[^/]+/, decodeURIComponent)
  for (const [pattern, operations] of Object.entries(document.paths)) {
    const operation = operations[key]
    // A parameter at the end takes all the rest of the path: model ids hold slashes.
    const expression = pattern
      .replaceAll('.', '\\.')
      .replace(/\/\{id\}$/, '/.*')
      .replace('{id}', '[^/]*')
    const matches = new RegExp(`^${expression}$`, 's').test(bare)
    if (operation !== undefined && matches) return { pattern, method: key, operation }
  }
  return null
}
