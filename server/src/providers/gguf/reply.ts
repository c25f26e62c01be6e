import type { ServerResponse } from 'node:http'
import { errorBody } from './wire.ts'

/** Answers with an error in OpenAI's shape. */
export function sendError(
  response: ServerResponse,
  status: number,
  code: string,
  message: string,
  param: string | null = null,
): void {
  sendJson(response, status, errorBody(code, message, param), status === 503 ? { 'retry-after': '1' } : {})
}

/** Answers with one JSON document. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
